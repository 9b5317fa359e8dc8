package backtest

// Result is what a policy made of a number of runs.
type Result struct {
	// USD is the mean cost of a run.
	USD float64 `json:"usd"`
	// ToOnDemand and ToClairvoyant are the means over the runs of their cost as a share of what the same run costs on
	// demand and under the clairvoyant: every run counts the same, on cheap machines and on dear ones.
	ToOnDemand    float64 `json:"toOnDemand"`
	ToClairvoyant float64 `json:"toClairvoyant"`
	// USDToClairvoyant is the ratio of the mean costs, in which the dear machines count for most.
	USDToClairvoyant float64 `json:"usdToClairvoyant"`
	// Misses counts the runs that were not done by their deadline, Interruptions the machines that were taken away, in
	// all runs.
	Misses        int `json:"misses"`
	Interruptions int `json:"interruptions"`
	// ToAIB is the mean of the cost as a share of AIB's, for workflows.
	ToAIB float64 `json:"toAIB,omitempty"`
}

// Group is the results on one market, trace or group of zones.
type Group struct {
	Name     string            `json:"name"`
	Runs     int               `json:"runs"`
	Policies map[string]Result `json:"policies"`
}

// Report is the outcome of an experiment: over all runs, and by market.
type Report struct {
	Runs     int               `json:"runs"`
	Policies map[string]Result `json:"policies"`
	Markets  []Group           `json:"markets"`
	// Skipped are the markets on which no run fits, or which have no on-demand price.
	Skipped []string `json:"skipped,omitempty"`
}

// outcome is one run under one policy.
type outcome struct {
	usd           float64
	missed        bool
	interruptions int
}

// tally sums the runs of one policy.
type tally struct {
	usd, toOnDemand, toClairvoyant, toAIB float64
	clairvoyant                           float64
	misses, interruptions, runs           int
}

// sums collects the runs of every policy.
type sums map[string]*tally

// add takes in one run: the outcomes of every policy for it.
func (s sums) add(run map[string]outcome) {
	for name, o := range run {
		t := s[name]
		if t == nil {
			t = &tally{}
			s[name] = t
		}
		t.runs++
		t.usd += o.usd
		t.clairvoyant += run[Clairvoyant].usd
		t.toOnDemand += ratio(o.usd, run[OnDemand].usd)
		t.toClairvoyant += ratio(o.usd, run[Clairvoyant].usd)
		t.toAIB += ratio(o.usd, run[AIB].usd)
		t.interruptions += o.interruptions
		if o.missed {
			t.misses++
		}
	}
}

// merge takes in other sums.
func (s sums) merge(other sums) {
	for name, o := range other {
		t := s[name]
		if t == nil {
			t = &tally{}
			s[name] = t
		}
		t.runs += o.runs
		t.usd += o.usd
		t.clairvoyant += o.clairvoyant
		t.toOnDemand += o.toOnDemand
		t.toClairvoyant += o.toClairvoyant
		t.toAIB += o.toAIB
		t.interruptions += o.interruptions
		t.misses += o.misses
	}
}

// results are the means.
func (s sums) results() map[string]Result {
	out := map[string]Result{}
	for name, t := range s {
		n := float64(t.runs)
		out[name] = Result{
			USD: t.usd / n, ToOnDemand: t.toOnDemand / n, ToClairvoyant: t.toClairvoyant / n, ToAIB: t.toAIB / n,
			USDToClairvoyant: ratio(t.usd, t.clairvoyant), Misses: t.misses, Interruptions: t.interruptions,
		}
	}
	return out
}

// ratio is a/b, 0 where there is no b.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
