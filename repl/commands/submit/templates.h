// The files that `perigee submit` prints: a file for each kind of cluster, with @NAME@ and the like where the job's own words go.
#pragma once

#include <string>

namespace perigee {

extern const char* const kSlurmTemplate;
extern const char* const kAwsBatchTemplate;
extern const char* const kSageMakerTemplate;
extern const char* const kSkyPilotTemplate;

// kubernetes.cpp: a Job, a JobSet (jobset.sigs.k8s.io) and a TrainJob (Kubeflow Trainer) with what belongs to each.
std::string kubernetes_template();
std::string jobset_template();
std::string trainjob_template();

}  // namespace perigee
