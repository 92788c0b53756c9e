// Nothing is logged here.
#pragma once
