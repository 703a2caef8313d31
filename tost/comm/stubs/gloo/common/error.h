// An empty header, which c10d's header for Gloo includes and does not use.
#pragma once
