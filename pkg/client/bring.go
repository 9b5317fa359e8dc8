package client

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/tradewind-broker/tradewind/internal/localfiles"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/pack"
)

// errNoJob is for who went on without a look at what Builder.Job said.
var errNoJob = errors.New("there is no job: look at the error that came with it")

// here finds what a job names on this computer, and returns a copy that names it by absolute paths: the job is the
// caller's.
func here(ctx context.Context, j *dag.Job) (*dag.Job, localfiles.Place, error) {
	if j == nil {
		return nil, localfiles.Place{}, errNoJob
	}
	dir, err := os.Getwd()
	if err != nil {
		return nil, localfiles.Place{}, fmt.Errorf("current directory: %w", err)
	}
	home, _ := os.UserHomeDir() // without one, paths under ~/ are found nowhere
	place := localfiles.Place{Base: dir, Home: home}
	found := *j
	found.Tasks = slices.Clone(j.Tasks)
	for i := range found.Tasks {
		t := &found.Tasks[i]
		t.Inputs, t.Outputs = slices.Clone(t.Inputs), slices.Clone(t.Outputs)
	}
	_, err = place.Find(ctx, &found, pack.Options{})
	return &found, place, err
}

// bring uploads what a job names on this computer and the broker lacks, and returns a copy that names the packs.
func (c *Client) bring(ctx context.Context, j *dag.Job) (*dag.Job, error) {
	found, place, err := here(ctx, j)
	if err != nil {
		return nil, err
	}
	sender := localfiles.Sender{Asker: c}
	send := func(ctx context.Context, path string, o pack.Options) (string, error) {
		t, err := sender.Bring(ctx, path, o)
		if err != nil {
			return "", err
		}
		return t.URI(), nil
	}
	_, err = place.Pack(ctx, found, pack.Options{}, send)
	return found, err
}
