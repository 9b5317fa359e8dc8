// Package weather has the conditions of a simulated world: its [Faults], drawn from
// the seed, what clouds sell, their spot prices, which zones have capacity, and when
// credentials, functions and connections fail. It knows nothing of brokers, machines
// or tasks; the world queries it.
package weather
