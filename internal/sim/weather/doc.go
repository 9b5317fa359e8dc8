// Package weather is what comes and goes by itself in a simulated world: how
// hostile it is ([Faults], drawn from the seed), what clouds sell, the spot prices
// of that, which zones have capacity, when credentials, functions and connections
// fail. It knows nothing of brokers, machines or tasks: it is asked.
package weather
