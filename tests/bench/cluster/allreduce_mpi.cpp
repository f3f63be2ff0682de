// MPI_Allreduce as the other side of allreduce_bench.cpp: the same sizes, the same turns, the same lines of output. Built with mpicxx
// by cluster.py; no part of Perigee.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

// allreduce_mpi SECONDS FLOATS…: for each size "FLOATS TIMES SECONDS_EACH", of the slowest rank.
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const double budget = std::atof(argv[1]);
  for (int arg = 2; arg < argc; ++arg) {
    const int count = std::atoi(argv[arg]);
    std::vector<float> block(static_cast<size_t>(count), 1.0f / 1024);
    int times = 3;
    double seconds = 0;
    for (int round = 0; round < 2; ++round) {  // the first finds out how often
      MPI_Barrier(MPI_COMM_WORLD);
      const double start = MPI_Wtime();
      for (int i = 0; i < times; ++i) MPI_Allreduce(MPI_IN_PLACE, block.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      double mine = (MPI_Wtime() - start) / times;
      MPI_Allreduce(&mine, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
      const double fit = budget / seconds;
      if (round == 0) times = fit < 3 ? 3 : fit > 1000 ? 1000 : static_cast<int>(fit);
      for (float& x : block) x = 1.0f / 1024;  // sums grow with each exchange: no infinities
    }
    if (rank == 0) std::printf("%d %d %.9f\n", count, times, seconds), std::fflush(stdout);
  }
  MPI_Finalize();
}
