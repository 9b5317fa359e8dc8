package reproduce

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tradewind-broker/tradewind/internal/lab/backtest"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

// source has the public data, and what several items of a paper are computed from, once.
type source struct {
	dir       string
	spot      []*market.Market
	workflows map[string]*backtest.WorkflowReport
}

func newSource(dir string) *source {
	return &source{dir: dir, workflows: map[string]*backtest.WorkflowReport{}}
}

// folder opens a folder of the data. The error of a missing one is fs.ErrNotExist.
func (s *source) folder(name string) (fs.FS, error) {
	dir := filepath.Join(s.dir, name)
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("the public data is missing: %w", err)
	}
	return os.DirFS(dir), nil
}

// markets are the public spot prices that replace those of WCSSI.
func (s *source) markets() ([]*market.Market, error) {
	if s.spot != nil {
		return s.spot, nil
	}
	dir, err := s.folder("spot-prices/aws-2016")
	if err != nil {
		return nil, err
	}
	s.spot, err = market.ReadMarkets(dir)
	return s.spot, err
}

// workflow replays a workflow of Pegasus on the markets.
func (s *source) workflow(ctx context.Context, name string) (*backtest.WorkflowReport, error) {
	if known := s.workflows[name]; known != nil {
		return known, nil
	}
	all, err := s.markets()
	if err != nil {
		return nil, err
	}
	job, err := read.File(filepath.Join(s.dir, "workflows", "dax", name+".xml.gz"))
	if err != nil {
		return nil, err
	}
	r, err := backtest.Workflow(ctx, job, all, backtest.WorkflowOptions{
		Deadlines: deadlinesOfPaper(), Repeats: 30, Seed: 1, Train: 0.5, Hours: 24, PathBound: true})
	if err == nil {
		s.workflows[name] = r
	}
	return r, err
}
