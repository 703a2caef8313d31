// An empty header, because c10d's header for Gloo includes this name and uses nothing of it.
#pragma once
