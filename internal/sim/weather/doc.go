// Package weather has the conditions of a simulated world: its [Faults], drawn from the seed, the offers of clouds,
// their spot prices, which zones have capacity, and when credentials, functions and connections fail. It does not use
// brokers, machines or tasks; the world queries it.
package weather
