package account

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/tradewind-broker/tradewind/internal/deploy"
)

// Bucket returns the name of a bucket of the deployment: dags or work.
func (w *World) Bucket(part string) string { return w.bucketIn(part, Region) }

// WorkIn returns the name of the bucket for task outputs in a region.
func (w *World) WorkIn(region string) string { return w.bucketIn("work", region) }

func (w *World) bucketIn(part, region string) string {
	return w.Stack.Name + "-" + part + "-" + account + "-" + region
}

// Regions returns the regions in which machines are bought, the deployment's own first.
func (w *World) Regions() []string {
	regions := []string{Region}
	for _, s := range w.Further {
		regions = append(regions, s.Region)
	}
	return regions
}

// Buckets returns the region of each bucket of the deployment.
func (w *World) Buckets() map[string]string {
	buckets := map[string]string{w.Bucket("dags"): Region}
	for _, region := range w.Regions() {
		buckets[w.WorkIn(region)] = region
	}
	return buckets
}

// In returns the user's configuration for a region.
func (w *World) In(region string) aws.Config {
	cfg := w.Config.Copy()
	cfg.Region = region
	return cfg
}

// deployFurther deploys the templates of the other regions with the emulator's CloudFormation there.
func (w *World) deployFurther(ctx context.Context, home *deploy.Target) error {
	for _, s := range w.Further {
		t, err := readTemplate(s)
		if err != nil {
			return err
		}
		stack, err := t.writeFor(s, w.Dir)
		if err != nil {
			return err
		}
		if _, err := home.In(s.Region).Deploy(ctx, stack, ""); err != nil {
			return err
		}
	}
	return nil
}
