// Package planning brings the planner, and with it the catalogue, into the
// function that plans. Nothing is read or decoded before the first plan is asked for.
package planning

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/objects"
	"github.com/tradewind-broker/tradewind/pkg/broker/planner"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
)

// New makes a planner on the clouds that the deployment buys from.
func New(s *lambdahost.Sandbox) *Planner {
	p := &Planner{
		Client: s.S3(), Bucket: s.Env.WorkBucket, Clouds: s.Env.Clouds, Stores: s.Config.Stores,
		Without: s.Env.Without,
		Now:     s.Now, Log: s.Log,
	}
	p.Regions = slices.Clone(s.Env.CloudRegions)
	for _, region := range s.BuyIn() {
		p.Regions = append(p.Regions, "aws:"+region)
	}
	return p
}

// SnapshotKey is where refresh keeps the renewed catalogue (pkg/cloud/aws/refresh.SnapshotKey; that package brings EC2
// with it).
const SnapshotKey = "catalog/offers.snapshot"

// lookEvery is how often a sandbox looks whether the catalogue was renewed.
const lookEvery = 10 * time.Minute

// maxSnapshot bounds what is read.
const maxSnapshot = 64 << 20

// Getter is what a Planner needs of *s3.Client.
type Getter interface {
	GetObject(context.Context, *s3.GetObjectInput, ...func(*s3.Options)) (*s3.GetObjectOutput, error)
}

// Planner plans on the catalogue that refresh has renewed, or on the one in the binary while there is none.
type Planner struct {
	Client Getter
	Bucket string
	Clouds []string
	// Regions that may be bought in, CLOUD:REGION; all when empty.
	Regions []string
	Stores  record.Stores
	Without []string // as planner.Options has it
	Now     func() time.Time
	Log     *slog.Logger

	mu     sync.Mutex
	made   *planner.Planner
	tag    string
	looked time.Time
}

// Plan implements broker.Planner.
func (p *Planner) Plan(ctx context.Context, in record.PlanInput) (*record.Plan, error) {
	made, err := p.planner(ctx)
	if err != nil {
		return nil, err
	}
	return made.Plan(ctx, in)
}

// Reserves implements broker.Planner.
func (p *Planner) Reserves(ctx context.Context) bool {
	made, err := p.planner(ctx)
	return err == nil && made.Reserves(ctx) // else Plan says why
}

// planner returns the planner on the newest catalogue. One that cannot be read is no reason not to plan.
func (p *Planner) planner(ctx context.Context) (*planner.Planner, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.made != nil && p.Now().Sub(p.looked) < lookEvery {
		return p.made, nil
	}
	c, err := p.renewed(ctx)
	if err != nil {
		p.Log.WarnContext(ctx, "the renewed catalogue cannot be read; planning on what is known", "err", err)
	}
	p.looked = p.Now()
	switch {
	case p.made == nil:
		return p.first(c)
	case c != nil:
		p.made.SetCatalog(c)
	}
	return p.made, nil
}

func (p *Planner) first(c *catalog.Catalog) (*planner.Planner, error) {
	if c == nil {
		var err error
		if c, err = catalog.Default(); err != nil {
			return nil, err
		}
	}
	moves, err := egress.Default()
	if err != nil {
		return nil, err
	}
	opt := planner.DefaultOptions()
	opt.Clouds, opt.Regions, opt.Stores, opt.Without = p.Clouds, p.Regions, p.Stores, p.Without
	p.made = planner.New(c, moves, opt)
	return p.made, nil
}

// renewed reads the catalogue of the work bucket; nil when there is none, or none newer than is known.
func (p *Planner) renewed(ctx context.Context) (*catalog.Catalog, error) {
	in := &s3.GetObjectInput{Bucket: &p.Bucket, Key: aws.String(SnapshotKey)}
	if p.tag != "" {
		in.IfNoneMatch = &p.tag
	}
	out, err := p.Client.GetObject(ctx, in)
	var answer *smithyhttp.ResponseError
	if objects.Missing(err) || errors.As(err, &answer) && answer.HTTPStatusCode() == http.StatusNotModified {
		return nil, nil //nolint:nilnil // there is nothing newer
	}
	if err != nil {
		return nil, fmt.Errorf("planning: s3://%s/%s: %w", p.Bucket, SnapshotKey, err)
	}
	defer out.Body.Close() //nolint:errcheck // only read
	data, err := io.ReadAll(io.LimitReader(out.Body, maxSnapshot))
	if err != nil {
		return nil, fmt.Errorf("planning: s3://%s/%s: %w", p.Bucket, SnapshotKey, err)
	}
	c, err := catalog.ReadSnapshot(data)
	if err == nil {
		p.tag = aws.ToString(out.ETag)
	}
	return c, err
}
