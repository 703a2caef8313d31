// Included by c10d's header for Gloo, which uses nothing of it.
#pragma once
