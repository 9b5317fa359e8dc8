package backtest

// Result summarises the runs of a policy.
type Result struct {
	// USD is the mean cost of a run.
	USD float64 `json:"usd"`
	// ToOnDemand and ToClairvoyant are mean cost ratios: the cost of each run divided by the cost of the same run on
	// demand and under the clairvoyant. Every run counts the same, on cheap and on expensive machines.
	ToOnDemand    float64 `json:"toOnDemand"`
	ToClairvoyant float64 `json:"toClairvoyant"`
	// USDToClairvoyant is the ratio of the mean costs; expensive machines dominate it.
	USDToClairvoyant float64 `json:"usdToClairvoyant"`
	// Misses counts the runs that missed their deadline and Interruptions the lost machines, over all runs.
	Misses        int `json:"misses"`
	Interruptions int `json:"interruptions"`
	// ToAIB is the mean cost ratio to AIB, for workflows.
	ToAIB float64 `json:"toAIB,omitempty"`
	// BelowAIB is the share of the runs that cost less than with AIB, and AboveAIB the mean cost ratio of the runs that
	// cost more, for workflows (WCSSI, table 4).
	BelowAIB float64 `json:"belowAIB,omitempty"`
	AboveAIB float64 `json:"aboveAIB,omitempty"`
}

// Group holds the results on one market, trace or group of zones.
type Group struct {
	Name     string            `json:"name"`
	Runs     int               `json:"runs"`
	Policies map[string]Result `json:"policies"`
}

// Report is the result of an experiment, over all runs and by market.
type Report struct {
	Runs     int               `json:"runs"`
	Policies map[string]Result `json:"policies"`
	Markets  []Group           `json:"markets"`
	// Skipped are the markets that are too short for a run or have no on-demand price.
	Skipped []string `json:"skipped,omitempty"`
}

// outcome is the result of one run under one policy.
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
	below, above                          int // runs that cost less and more than with AIB
	aboveAIB                              float64
}

// sums collects the runs of every policy.
type sums map[string]*tally

// add adds one run: the outcomes of all policies for it.
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
		toAIB := ratio(o.usd, run[AIB].usd)
		t.toAIB += toAIB
		switch {
		case toAIB > 0 && toAIB < 1-equal:
			t.below++
		case toAIB > 1+equal:
			t.above++
			t.aboveAIB += toAIB
		}
		t.interruptions += o.interruptions
		if o.missed {
			t.misses++
		}
	}
}

// merge adds other sums.
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
		t.below += o.below
		t.above += o.above
		t.aboveAIB += o.aboveAIB
	}
}

// equal is the relative difference below which two costs are the same.
const equal = 1e-9

// results returns the means.
func (s sums) results() map[string]Result {
	out := map[string]Result{}
	for name, t := range s {
		n := float64(t.runs)
		out[name] = Result{
			USD: t.usd / n, ToOnDemand: t.toOnDemand / n, ToClairvoyant: t.toClairvoyant / n, ToAIB: t.toAIB / n,
			USDToClairvoyant: ratio(t.usd, t.clairvoyant), Misses: t.misses, Interruptions: t.interruptions,
			BelowAIB: float64(t.below) / n, AboveAIB: ratio(t.aboveAIB, float64(t.above)),
		}
	}
	return out
}

// ratio returns a/b, or 0 if b is 0.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
