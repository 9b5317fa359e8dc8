package clouds

import (
	"bytes"
	"context"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap/imdstest"
	"github.com/tradewind-broker/tradewind/internal/emulator/arm"
	"github.com/tradewind-broker/tradewind/internal/emulator/gce"
	"github.com/tradewind-broker/tradewind/internal/emulator/lambdacloud"
	"github.com/tradewind-broker/tradewind/internal/grant/s3grant"
	"github.com/tradewind-broker/tradewind/internal/grant/servers"
	"github.com/tradewind-broker/tradewind/internal/rehearsal/account"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Regions, zones and names of the rehearsal's clouds.
const (
	googleRegion, googleZone = "us-central1", "us-central1-a"
	azureRegion              = "eastus"
	lambdaRegion             = "us-east-1"
	project                  = "demo"
	serviceAccount           = "machines@demo.iam.gserviceaccount.com"
	brokerAccount            = "broker@demo.iam.gserviceaccount.com" // signs for its bucket
	googleBucket             = "demo-work"
	azureContainer           = "work"
	accountNumber            = "123456789012" // of AWS
	jobsBucket               = "demo-jobs"    // whose files are jobs
	pushAccount              = "tradewind-push@demo.iam.gserviceaccount.com"
)

// Settings returns the cloud settings for synthesising the deployment; the emulators' endpoints are set later.
func Settings() map[string]string {
	return map[string]string{
		"gcp": "project=" + project + ",regions=" + googleRegion + ",serviceAccount=" + serviceAccount +
			",stores=" + googleRegion + ":" + googleBucket + ",impersonate=" + brokerAccount +
			",secrets=" + project + "/hf,dags=gs://" + jobsBucket + "/dags,pushAccount=" + pushAccount,
		"azure": "subscription=" + arm.DefaultSubscription + ",regions=" + azureRegion +
			",stores=" + azureRegion + ":" + azureContainer + ",storageAccount=" + servers.AzureAccount +
			",secrets=team/wandb-*",
		"lambda": "regions=" + lambdaRegion,
	}
}

// World is four clouds with a deployment in one of them.
type World struct {
	*account.World
	Google *gce.Cloud
	Azure  *arm.Server
	Lambda *lambdacloud.Cloud

	// Owned gives access to the stores of all clouds, with their owners' rights.
	Owned      grant.Mux
	Delegation string // the key that Azure issues for signatures

	stores  *stores
	watch   *watch // measures launches
	servers []*httptest.Server
	sold    []line
	faults  []string // requests that are not in a cloud's published description

	throttled atomic.Int64 // requests
}

// Open starts the clouds and deploys. Close ends it.
func Open(ctx context.Context, o account.Options) (*World, error) { return open(ctx, o, 0) }

// open is Open with a number of machine types that are in Azure's catalogue but not available.
func open(ctx context.Context, o account.Options, refused int) (*World, error) {
	w := &World{watch: newWatch(), sold: append(slices.Clip(sold), unavailable(refused)...)}
	environment := []string{"TRADEWIND_PAUSE=1"}
	var err error
	w.Google, err = gce.New(gce.Config{
		Project: project, Dir: filepath.Join(o.Dir, "machines"), Environment: environment,
		Zones: []string{googleZone, "us-central1-b"},
		Price: func(b gce.Bill) float64 { return priceOf("gcp", b.Type, b.Spot) },
	})
	if err != nil {
		return nil, err
	}
	authority, err := imdstest.NewAzureAuthority()
	if err != nil {
		return nil, err
	}
	w.Azure = arm.New(arm.Config{
		Dir: filepath.Join(o.Dir, "machines"), Environment: environment, Authority: authority, Sizes: sizes(w.sold),
		Locations: []arm.Location{{Name: azureRegion, Zones: map[string]string{"1": "eastus-az1", "2": "eastus-az2"}}},
	})
	w.Lambda = lambdacloud.New(lambdacloud.Config{
		Dir: filepath.Join(o.Dir, "machines"), Environment: environment,
		Fault: func(err error) { w.faults = append(w.faults, err.Error()) },
	})
	w.Google.Lag(lateLists)
	w.Azure.Lag(lateLists)
	google, azure, lambda := w.serve(httptest.NewServer(w.throttle("gcp", w.watch.sells(w.Google)))),
		w.serve(httptest.NewServer(w.throttle("azure", w.watch.refuses(w.Azure)))),
		w.serve(httptest.NewServer(w.throttle("lambda", w.Lambda)))
	authority.Issuers = azure + arm.IssuersPath
	if w.stores, err = openStores(ctx, w.Google); err != nil {
		w.closeClouds()
		return nil, err
	}
	w.Owned, w.Delegation = w.stores.owners, w.stores.delegation
	// Counting starts when grants are known.
	var through atomic.Pointer[account.Moves]
	storage := map[string]string{
		"gcp":   w.serve(httptest.NewServer(counting(&through, "gcp:"+googleRegion, w.stores.google))),
		"azure": w.serve(httptest.NewServer(counting(&through, "azure:"+azureRegion, w.stores.azure))),
	}
	kept, err := w.vaults()
	if err != nil {
		w.closeClouds()
		return nil, err
	}
	settings := Settings()
	o.Environment = func(function string) map[string]string {
		endpoint := map[string]string{"gcp": google, "azure": azure, "lambda": lambda}
		env := map[string]string{
			"TRADEWIND_MACHINE_KEYS": "gcp=" + google + "/oauth2/v3/certs,azure=" + authority.Certificates(),
		}
		if name, ok := strings.CutPrefix(function, "cloud-"); ok {
			env["TRADEWIND_CLOUD"] = settings[name] + ",endpoint=" + endpoint[name]
			if name == "gcp" { // Google's keys, for checking its pushes
				env["TRADEWIND_CLOUD"] += ",proofs=" + google + "/oauth2/v3/certs"
			}
			if storage[name] != "" {
				env["TRADEWIND_CLOUD"] += ",storage=" + storage[name]
			}
			if kept[name] != "" {
				env["TRADEWIND_CLOUD"] += ",secretStore=" + kept[name]
			}
		}
		return env
	}
	if w.World, err = account.Open(ctx, o); err != nil {
		w.closeClouds()
		return nil, err
	}
	through.Store(w.Moves)
	if err := w.setUpPush(ctx, google); err != nil {
		w.Close()
		return nil, err
	}
	if err := w.prepare(ctx); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

func (w *World) serve(s *httptest.Server) string {
	w.servers = append(w.servers, s)
	return s.URL
}

// prepare stores the clouds' catalogue where refresh would, and the key of Lambda's cloud where a user would.
func (w *World) prepare(ctx context.Context) error {
	all, err := catalog.Default()
	if err != nil {
		return err
	}
	sold, err := all.Replace(func(*catalog.Offer) bool { return true }, offers(w.sold))
	if err != nil {
		return err
	}
	var body bytes.Buffer
	if err := sold.WriteSnapshot(&body); err != nil {
		return err
	}
	bucket, key := w.Bucket("work"), "catalog/offers.snapshot"
	client := s3.NewFromConfig(w.Config, func(o *s3.Options) { o.UsePathStyle = true })
	w.Owned["s3"] = s3grant.New(client, s3grant.Options{})
	put := &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: bytes.NewReader(body.Bytes())}
	if _, err := client.PutObject(ctx, put); err != nil {
		return err
	}
	_, err = ssm.NewFromConfig(w.Config).PutParameter(ctx, &ssm.PutParameterInput{
		Name: aws.String("/" + w.Stack.Name + "/clouds/lambda-key"), Type: types.ParameterTypeSecureString,
		Value: aws.String(lambdacloud.DefaultKey),
	})
	return err
}

// Close ends everything that was started.
func (w *World) Close() {
	w.World.Close()
	w.closeClouds()
}

func (w *World) closeClouds() {
	for _, s := range w.servers {
		s.Close()
	}
	w.Google.Close()
	w.Azure.Close()
	w.Lambda.Close()
	if w.stores != nil {
		w.stores.close()
	}
}

// Faults returns requests that the clouds do not support.
func (w *World) Faults() []string {
	var all []string
	for _, f := range append(w.Google.Faults(), append(w.Azure.Unpublished(), w.faults...)...) {
		all = append(all, fmt.Sprintf("%.300s", f))
	}
	return all
}
