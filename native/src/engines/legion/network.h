// How several processes reach each other.
#pragma once

namespace ff::legion {

// What -ll:networks should say for so many processes; nullptr: nothing. Throws an Error when this Legion has none.
const char* network_of(int processes);

// Before Legion starts: what Realm and UCX read from the environment, where the user has not set it, and the other
// processes found. Throws an Error that tells what keeps them apart.
void set_up_network();

}  // namespace ff::legion
