package story

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/internal/rehearsal/account"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Elsewhere is the region of one task of dag.yaml; elsewhereFile is the task's output.
const (
	Elsewhere     = "us-west-2"
	elsewhereTask = "survey"
	elsewhereFile = "tiles.bin"
)

// Between is the data moved from one region to another, and its planned cost.
type Between struct {
	What       string  `json:"what"`
	From       string  `json:"from"`
	To         string  `json:"to"`
	Bytes      int64   `json:"bytes"`
	USD        float64 `json:"usd"`        // at list price
	PlannedUSD float64 `json:"plannedUSD"` // 0 if plans do not include it
}

// String returns a line for the report.
func (b Between) String() string {
	s := fmt.Sprintf("moved between regions: %d bytes of %s from %s to %s, %.6f USD", b.Bytes, b.What, b.From,
		b.To, b.USD)
	if b.PlannedUSD > 0 {
		s += fmt.Sprintf("; planned %.6f USD", b.PlannedUSD)
	}
	return s
}

// movedWithin is the allowed relative difference between moved and planned data: the size of the task's outputs is as
// declared, plus a manifest.
const movedWithin = 0.1

// moved checks where the outputs are stored, and compares the data that machines moved between regions with the first
// plan.
func (s *Story) moved(ctx context.Context) (string, error) {
	where, err := s.apart(ctx)
	if err != nil {
		return "", err
	}
	if s.between, err = between(s.World.Moves.Between(), s.job); err != nil {
		return "", err
	}
	err = asPlanned(s.between, s.plannedToMove)
	said := []string{where}
	for _, b := range s.between {
		said = append(said, b.String())
	}
	if s.World.Chaos { // failed reads are repeated
		err = nil
	}
	return strings.Join(said, "\n"), err
}

// asPlanned sets the planned cost of the outputs of the task elsewhere, and checks that only they moved.
func asPlanned(moved []Between, usd float64) error {
	i := slices.IndexFunc(moved, func(b Between) bool {
		return b.What == outputs && b.From == Elsewhere && b.To == account.Region
	})
	if i < 0 {
		return fmt.Errorf("no outputs were read in %s from %s: %v", account.Region, Elsewhere, moved)
	}
	moved[i].PlannedUSD = usd
	for j, b := range moved {
		if j != i && b.What == outputs {
			return fmt.Errorf("not planned: %s", b)
		}
	}
	if !(math.Abs(moved[i].USD/usd-1) <= movedWithin) {
		return fmt.Errorf("moved and planned data differ: %s; planned %.6f USD", moved[i], usd)
	}
	return nil
}

// apart checks that the output of the task elsewhere is only in the bucket of its region.
func (s *Story) apart(ctx context.Context) (string, error) {
	prefix := s.job + "/" + elsewhereTask + "/"
	there, err := s.keys(ctx, s.World.WorkIn(Elsewhere), prefix)
	if err != nil {
		return "", err
	}
	here, err := s.keys(ctx, s.World.WorkIn(account.Region), prefix)
	if err != nil {
		return "", err
	}
	if len(here) > 0 {
		return "", fmt.Errorf("the bucket of %s contains %v", account.Region, here)
	}
	i := slices.IndexFunc(there, func(k string) bool { return strings.HasSuffix(k, "/"+elsewhereFile) })
	if i < 0 {
		return "", fmt.Errorf("missing %s among %v in the bucket of %s", elsewhereFile, there, Elsewhere)
	}
	others, err := s.keys(ctx, s.World.WorkIn(Elsewhere), "")
	if err != nil {
		return "", err
	}
	for _, k := range others {
		if !strings.HasPrefix(k, prefix) {
			return "", fmt.Errorf("the bucket of %s contains %s", Elsewhere, k)
		}
	}
	return fmt.Sprintf("s3://%s/%s, and no part of it in %s", s.World.WorkIn(Elsewhere), there[i],
		s.World.WorkIn(account.Region)), nil
}

// planToMove returns the current plan's cost of moving data, USD.
func (s *Story) planToMove(ctx context.Context) (float64, error) {
	return PlannedToMove(ctx, s.store, s.job)
}

// PlannedToMove returns the cost of moving a job's data in its current plan, USD: its total without its tasks.
func PlannedToMove(ctx context.Context, st store.Store, id string) (float64, error) {
	u := txn.NewTransactor(st, time.Now, config.Config{}, txn.Hooks{}).NewUnit(ctx, "api")
	job, found, err := recordcache.Get[record.Job](u, record.JobKey(id))
	if err != nil {
		return 0, err
	}
	if !found {
		return 0, errors.New("the job's record is missing")
	}
	p, err := u.Plan(job)
	if err != nil {
		return 0, err
	}
	usd := p.USD
	for i := range p.TaskUSD {
		usd -= p.OwnUSD(i)
	}
	return usd, nil
}

// The kinds of moved data.
const (
	outputs = "outputs"
	program = "the agent's program"
)

// between adds up the data that a job moved between regions. It returns an error if a region is unknown.
func between(moves []account.Move, job string) ([]Between, error) {
	prices, err := egress.Default()
	if err != nil {
		return nil, err
	}
	var out []Between
	for _, m := range moves {
		if m.From == account.Unknown || m.To == account.Unknown {
			return nil, fmt.Errorf("no agent was given %s, of which %d bytes went from %s to %s", m.Object, m.Bytes,
				m.From, m.To)
		}
		_, key, _ := strings.Cut(m.Object, "/")
		what := program
		switch {
		case strings.HasPrefix(key, job+"/"):
			what = outputs
		case !strings.HasPrefix(key, "agent/"):
			continue // of other jobs
		}
		perGiB, err := prices.USDPerGiB("aws:"+m.From, "aws:"+m.To)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(out, func(b Between) bool { return b.What == what && b.From == m.From && b.To == m.To })
		if i < 0 {
			i = len(out)
			out = append(out, Between{What: what, From: m.From, To: m.To})
		}
		out[i].Bytes += m.Bytes
		out[i].USD += float64(m.Bytes) / (1 << 30) * perGiB
	}
	return out, nil
}
