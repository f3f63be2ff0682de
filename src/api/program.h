// The `perigee` program as a function of libperigee: the executable is a door to it. Not part of the stable interface.
#pragma once

extern "C" __attribute__((visibility("default"))) int perigee_main(int argc, char** argv);
