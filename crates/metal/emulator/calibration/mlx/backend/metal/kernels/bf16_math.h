// The emulator's functions take every number there is.
#pragma once
