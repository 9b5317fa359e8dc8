package backtest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The names of the policies.
const (
	OnDemand        = "on-demand"
	Spot            = "spot"
	Greedy          = "greedy"
	AIB             = "aib"
	UniformProgress = "uniform-progress"
	BFRC            = "bfrc"
	Markov          = "markov"
	Clairvoyant     = "clairvoyant"
	// UniformProgressZones is Uniform Progress extended to several zones, which its paper does not cover: it uses
	// any zone with machines.
	UniformProgressZones = "uniform-progress-zones"
)

// Policies returns the names of all policies, from the simplest to the lower bound.
func Policies() []string {
	return []string{OnDemand, Spot, Greedy, AIB, UniformProgress, BFRC, Markov, Clairvoyant}
}

// ErrBadRequest is returned for invalid options of an experiment.
var ErrBadRequest = errors.New("bad back-test")

// choose returns the policies that an experiment runs: the requested ones (all if there are none, or for "all"), plus
// on-demand and the clairvoyant, which the others are compared with.
func choose(asked []string, known ...string) ([]string, error) {
	if len(known) == 0 {
		known = Policies()
	}
	want := map[string]bool{OnDemand: true, Clairvoyant: true}
	for _, name := range asked {
		switch {
		case name == "all":
			return known, nil
		case !slices.Contains(Policies(), name):
			return nil, fmt.Errorf("%w: unknown policy %q; the policies are %s", ErrBadRequest, name,
				strings.Join(Policies(), ", "))
		}
		want[name] = true
	}
	if len(asked) == 0 {
		return known, nil
	}
	var names []string
	for _, name := range known {
		if want[name] {
			names = append(names, name)
		}
	}
	return names, nil
}
