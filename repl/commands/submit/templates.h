// The files that `perigee submit` prints: a file for each kind of cluster, with @NAME@ and the like where the job's own words go.
#pragma once

#include <string>

namespace perigee {

extern const char* const kSlurmTemplate;
extern const char* const kKubernetesTemplate;
extern const char* const kAwsBatchTemplate;
extern const char* const kSageMakerTemplate;
extern const char* const kSkyPilotTemplate;

}  // namespace perigee
