// Requests for memory that the calling thread made, the library's among them.
#pragma once

extern thread_local long allocations;
