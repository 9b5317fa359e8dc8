package client

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/tradewind-broker/tradewind/internal/localfiles"
	"github.com/tradewind-broker/tradewind/internal/pack"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// errNoJob is returned to a caller that passes the nil job of Builder.Job, whose error it ignored.
var errNoJob = errors.New("there is no job: look at the error that came with it")

// resolveLocalFiles finds the files that a job names on this computer. It returns a copy of the job with absolute
// paths; the caller's job is not changed.
func resolveLocalFiles(ctx context.Context, j *dag.Job) (*dag.Job, localfiles.Base, error) {
	if j == nil {
		return nil, localfiles.Base{}, errNoJob
	}
	dir, err := os.Getwd()
	if err != nil {
		return nil, localfiles.Base{}, fmt.Errorf("current directory: %w", err)
	}
	home, _ := os.UserHomeDir() // without one, paths under ~/ are not found
	place := localfiles.Base{Base: dir, Home: home}
	found := *j
	found.Tasks = slices.Clone(j.Tasks)
	for i := range found.Tasks {
		t := &found.Tasks[i]
		t.Inputs, t.Outputs = slices.Clone(t.Inputs), slices.Clone(t.Outputs)
	}
	_, err = place.Find(ctx, &found, pack.Options{})
	return &found, place, err
}

// uploadLocalFiles uploads local files of a job that the broker does not have, and returns a copy of the job that names
// the packs.
func (c *Client) uploadLocalFiles(ctx context.Context, j *dag.Job) (*dag.Job, error) {
	found, place, err := resolveLocalFiles(ctx, j)
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
