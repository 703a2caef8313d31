// Registers the operators' schemas in torch's stable library, and is the module tost._C.
#include <Python.h>
#include <torch/csrc/stable/library.h>

#include "tost/kernels/isa.h"
#include "tost/ops/schemas.h"

STABLE_TORCH_LIBRARY(tost, m) {
  for (const char* schema : tost::kTssaSchemas) m.def(schema);
}

namespace {

PyObject* isa(PyObject*, PyObject*) {
  try {
    return PyUnicode_FromString(tost::kernels::current_isa().c_str());
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
}

PyMethodDef methods[] = {{"isa", isa, METH_NOARGS, "The instruction set that the kernels use."},
                         {nullptr, nullptr, 0, nullptr}};
PyModuleDef definition = {.m_base = PyModuleDef_HEAD_INIT,
                          .m_name = "_C",
                          .m_doc = "The kernels of tost; tost.ops calls them.",
                          .m_size = -1,
                          .m_methods = methods};

}  // namespace

PyMODINIT_FUNC PyInit__C() {
  return PyModule_Create(&definition);
}
