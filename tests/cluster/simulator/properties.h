// Scenarios with a property of their own, besides what the oracle checks in each run. A function makes one from a seed and says why the property
// does not hold; empty: it does. The planted bugs that only such a property shows are hunted with it (planted.cpp).
#pragma once

#include <cstdint>
#include <string>

#include "cluster/planted.h"

namespace perigee::sim {

// A link that is not used may end, once or often: it is not told, and no worker has to go.
std::string failure_of_unused_link(uint64_t seed);
// A link falls silent, and its two ends complain one after the other: the second complaint is of a membership that is over. No worker has to go.
std::string failure_of_late_complaint(uint64_t seed);
// A worker that stands still holds the others up for twice the policy's deadline_ms and a few steps at most.
std::string failure_of_deadline(uint64_t seed);
// A run that learns nothing, so that its loss moves by chance alone: nobody calls that divergence.
std::string failure_of_learning_nothing(uint64_t seed);
// Steps that take longer than the policy's deadline_ms, and nobody waits for them: the run trains all the same.
std::string failure_of_long_first_step(uint64_t seed);
// A worker that is to hand its parameters to another does not: the other says so, and training goes on without one of the two.
std::string failure_of_silent_donor(uint64_t seed);
// Results that take long to apply, and members that come and go meanwhile.
std::string failure_of_changing_members(uint64_t seed);

// Workers keep what they pushed until there is an image of the server: it comes in time, and where it does not, that is said once.
std::string failure_of_full_memory(uint64_t seed);
// A server dies and comes back: that is said once, whether rounds are to be made again or its image has them all.
std::string failure_of_untold_return(uint64_t seed);

// A worker is cut off, stopped, or behind a relay that forwards nothing shortly before the run ends: once it can be reached it hears of the
// end, and ends.
std::string failure_of_unheard_end(uint64_t seed);

// A server and a worker, or all workers, are killed at once, and their agents say so: training goes on as soon as new processes are there.
std::string failure_of_awaited_dead(uint64_t seed);
// An agent tells once more that a worker's process ended, while the worker's next one is stopped, with what it alone holds: it is waited for.
std::string failure_of_stale_death(uint64_t seed);
// All others die, their agents say so, and the one that is left waits for new ones with what it alone holds, and is cut off until they are
// there: it is waited for.
std::string failure_of_lonely_holder(uint64_t seed);

struct Property {
  const char* name;
  std::string (*failure)(uint64_t seed);
  Bug shows;  // Bug::none: several
};
inline constexpr Property kProperties[] = {
    {"unused_link", failure_of_unused_link, Bug::old_links_mourned},
    {"late_complaint", failure_of_late_complaint, Bug::dropped_fence},
    {"deadline", failure_of_deadline, Bug::no_deadline},
    {"long_first_step", failure_of_long_first_step, Bug::first_step_not_learned},
    {"learning_nothing", failure_of_learning_nothing, Bug::chance_is_divergence},
    {"silent_donor", failure_of_silent_donor, Bug::donor_not_named},
    {"full_memory", failure_of_full_memory, Bug::images_unhurried},
    {"unheard_end", failure_of_unheard_end, Bug::ends_unheard},
    {"awaited_dead", failure_of_awaited_dead, Bug::dead_awaited},
    {"stale_death", failure_of_stale_death, Bug::any_life_dead},
    {"lonely_holder", failure_of_lonely_holder, Bug::waiting_forgotten},
    {"untold_return", failure_of_untold_return, Bug::none},
    {"changing_members", failure_of_changing_members, Bug::formed_too_soon},
};

}  // namespace perigee::sim
