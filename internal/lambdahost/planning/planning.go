// Package planning gives the function that plans its planner and catalogue.
// Nothing is read or decoded before the first plan is requested.
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

	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/planner"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/objects"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
)

// New makes a planner for the clouds on which the deployment buys.
func New(s *lambdahost.Sandbox) *Planner {
	p := &Planner{
		Client: s.S3(), Bucket: s.Env.WorkBucket, Clouds: s.Env.Clouds, Stores: s.Config.Stores,
		Services: s.Env.Services, Without: s.Env.Without, AgentKey: s.Env.AgentKey, Limit: s.Env.Limit,
		Now: s.Now, Log: s.Log,
	}
	p.Regions = slices.Clone(s.Env.CloudRegions)
	for _, region := range s.BuyIn() {
		p.Regions = append(p.Regions, "aws:"+region)
	}
	return p
}

// SnapshotKey is where refresh stores the refreshed catalogue. It equals internal/cloud/aws/refresh.SnapshotKey, whose
// package would link EC2.
const SnapshotKey = "catalog/offers.snapshot"

// lookEvery is how often a sandbox checks whether the catalogue was refreshed.
const lookEvery = 10 * time.Minute

// maxSnapshot limits how much is read, in bytes.
const maxSnapshot = 64 << 20

// Getter is the part of *s3.Client that a Planner uses.
type Getter interface {
	GetObject(context.Context, *s3.GetObjectInput, ...func(*s3.Options)) (*s3.GetObjectOutput, error)
}

// Planner plans with the refreshed catalogue, or with the one in the binary if there is none.
type Planner struct {
	Client Getter
	Bucket string
	Clouds []string
	// Regions in which machines may be bought, CLOUD:REGION; empty means all.
	Regions []string
	// Services are the managed services that may be bought.
	Services []string
	Stores   config.Stores
	Without  []string // see planner.Options
	Limit    config.Limit
	// AgentKey has the storage keys of the agents, as in lambdahost.Env; empty means an agent for any machine.
	AgentKey string
	Now      func() time.Time
	Log      *slog.Logger

	mu     sync.Mutex
	made   *planner.Planner
	tag    string
	looked time.Time
}

// Plan implements broker.Planner.
func (p *Planner) Plan(ctx context.Context, in planinput.Input) (*record.Plan, error) {
	made, err := p.planner(ctx)
	if err != nil {
		return nil, err
	}
	return made.Plan(ctx, in)
}

// Reserves implements broker.Planner.
func (p *Planner) Reserves(ctx context.Context) bool {
	made, err := p.planner(ctx)
	return err == nil && made.Reserves(ctx) // otherwise Plan returns the error
}

// planner returns a planner with the newest catalogue. If it cannot be read, it continues with the last one.
func (p *Planner) planner(ctx context.Context) (*planner.Planner, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.made != nil && p.Now().Sub(p.looked) < lookEvery {
		return p.made, nil
	}
	c, err := p.renewed(ctx)
	if err != nil {
		p.Log.WarnContext(ctx, "the refreshed catalogue cannot be read; planning with the last known one", "err", err)
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
	opt.Limit, opt.Services = p.Limit, map[string]bool{}
	for _, name := range p.Services {
		opt.Services[name] = true
	}
	if opt.Archs, err = p.archs(); err != nil {
		return nil, err
	}
	p.made = planner.New(c, moves, opt)
	return p.made, nil
}

// archs returns the architectures for which the deployment has an agent, by cloud.
func (p *Planner) archs() (map[string][]string, error) {
	if p.AgentKey == "" {
		return nil, nil //nolint:nilnil // no limit
	}
	agents, err := driver.ParseAgents(p.AgentKey)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", lambdahost.ErrEnv, lambdahost.EnvAgentKey, err)
	}
	return agents.ArchsOn(p.Clouds), nil
}

// renewed reads the catalogue from the work bucket. It returns nil if there is none, or none newer than the last one.
func (p *Planner) renewed(ctx context.Context) (*catalog.Catalog, error) {
	in := &s3.GetObjectInput{Bucket: &p.Bucket, Key: aws.String(SnapshotKey)}
	if p.tag != "" {
		in.IfNoneMatch = &p.tag
	}
	out, err := p.Client.GetObject(ctx, in)
	var answer *smithyhttp.ResponseError
	if objects.Missing(err) || errors.As(err, &answer) && answer.HTTPStatusCode() == http.StatusNotModified {
		return nil, nil //nolint:nilnil // nothing newer
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
