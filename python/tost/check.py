def check_tssa(module):
    raise NotImplementedError
