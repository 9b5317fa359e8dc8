package clouds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/internal/cloud/push"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/kits"
	"github.com/tradewind-broker/tradewind/internal/emulator/gce"
	"github.com/tradewind-broker/tradewind/internal/store/dynamo"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// setUpPush creates the resources of `cloud add gcp --aws-account ID --dags PLACE --push-url API`, and connects
// Google's audit log to the same topic.
func (w *World) setUpPush(ctx context.Context, google string) error {
	all := kits.All()
	kit := all[slices.Index(cloudkit.Names(all), "gcp")]
	setup, err := kit.Setup(ctx, cloudkit.Request{
		Deployment: w.Stack.Name, Lookup: os.Getenv,
		Settings: cloudkit.Settings{
			Project: project, Regions: []string{googleRegion}, Endpoint: google, DAGs: "gs://" + jobsBucket + "/dags",
			PushURL:   w.API,
			Functions: cloudkit.Functions{Account: accountNumber, Deployment: w.Stack.Name},
		},
	})
	if err != nil {
		return err
	}
	made, err := setup.Make(ctx, func(string) {})
	if err == nil && made.PushAccount != pushAccount {
		err = fmt.Errorf("the push account is %s, not %s", made.PushAccount, pushAccount)
	}
	w.Google.Sink("tradewind-" + w.Stack.Name)
	return err
}

// put writes a file into the bucket whose files are jobs, and get reads one; get returns an error if it does not exist.
func (w *World) put(ctx context.Context, key, text string) error {
	_, err := w.bucket(ctx, http.MethodPost, "/upload/storage/v1/b/"+jobsBucket+"/o?uploadType=media&name="+
		url.QueryEscape(key), text)
	return err
}

func (w *World) get(ctx context.Context, key string) (string, error) {
	return w.bucket(ctx, http.MethodGet, "/storage/v1/b/"+jobsBucket+"/o/"+url.PathEscape(key)+"?alt=media", "")
}

func (w *World) bucket(ctx context.Context, method, path, body string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, w.stores.buckets+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req) //nolint:gosec // an emulator
	if err != nil {
		return "", err
	}
	defer resp.Body.Close() //nolint:errcheck // read
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s of %s: %s", method, path, resp.Status)
	}
	return string(text), err
}

// fromBucket is a job that waits on its first machine until that is taken.
const fromBucket = `apiVersion: tradewind/v1
name: from-bucket
budget: 5 USD
tasks:
  waits:
    run: |
      state="$TRADEWIND_CHECKPOINT/seen"
      if [ -e "$state" ]; then echo "resuming"; exit 0; fi
      echo 1 >"$state"
      while :; do sleep 0.2; done
    checkpoint: {every: 2s, path: ckpt/, size: 1MiB}
    resources: {cpus: 16+, market: spot}
    time: 20m
`

// dropped: the bucket notifies Pub/Sub, which pushes to the API; Google's function checks the token and reads the file.
func (s *Story) dropped(ctx context.Context) (said string, err error) {
	w := s.World
	err = errors.Join(w.put(ctx, "dags/broken.yaml", strings.Replace(fromBucket, "run:", "rum:", 1)),
		w.put(ctx, "dags/team/from-bucket.yaml", fromBucket))
	if err != nil {
		return "", err
	}
	err = until(ctx, func() error {
		jobs, err := s.client.Jobs(ctx, 100)
		if err != nil {
			return err
		}
		said, s.drop = "", ""
		for _, j := range jobs.Jobs {
			if j.Name != "from-bucket" {
				continue
			}
			if s.drop != "" {
				return fmt.Errorf("it has two jobs: %s and %s", s.drop, j.ID)
			}
			s.drop = j.ID
		}
		if s.drop == "" {
			return errors.New("it has no job yet")
		}
		remark, err := w.get(ctx, "dags/broken.yaml.error.txt")
		said = fmt.Sprintf("gs://%s/dags/team/from-bucket.yaml is %s\nerror of the other file: %s", jobsBucket, s.drop,
			strings.TrimSpace(remark))
		return err
	})
	if err != nil {
		return said, err
	}
	// When the broken file is fixed and becomes a job, its error file is deleted. Its budget is too small for any
	// offer.
	mended := strings.NewReplacer("from-bucket", "fixed", "5 USD", "0.00001 USD").Replace(fromBucket)
	if err = w.put(ctx, "dags/broken.yaml", mended); err != nil {
		return said, err
	}
	return said, until(ctx, func() error {
		remark, err := w.get(ctx, "dags/broken.yaml.error.txt")
		if err == nil {
			return errors.New("broken.yaml is fixed, but its error file remains: " + remark)
		}
		if !strings.Contains(err.Error(), "404") {
			return err
		}
		return nil
	})
}

// pushed: a push is trusted only for its token, and handled while the machine still runs and its agent does not know
// yet.
func (s *Story) pushed(ctx context.Context) (said string, err error) {
	w := s.World
	said, err = s.forged(ctx)
	if err != nil {
		return said, err
	}
	var machine gce.Bill
	err = until(ctx, func() error {
		keys, err := s.stored(ctx, "gs://"+googleBucket, s.drop, "ckpt")
		if err != nil || len(keys) == 0 {
			return errors.Join(err, errors.New("no checkpoint yet"))
		}
		for _, b := range w.Google.Bills() {
			if b.Until.IsZero() && b.Spot && w.Google.PreemptWithoutNotice(b.ID) {
				machine = b
				return nil
			}
		}
		return errors.New("no spot machine of Google's")
	})
	if err != nil {
		return said, err
	}
	told := time.Now()
	if err := until(ctx, func() error { return s.doomed(ctx, record.ClusterID(s.drop, 0, 1)) }); err != nil {
		return said, err
	}
	said += fmt.Sprintf("\n%s will be taken: the broker knows after %.1f s", machine.Name, time.Since(told).Seconds())
	w.Google.Preempt(machine.ID) // now the machine learns of it, and the audit log sends it again
	return said, until(ctx, func() error {
		d, err := s.client.Job(ctx, s.drop)
		if err != nil {
			return err
		}
		first, last := d.Attempts[0], d.Attempts[len(d.Attempts)-1]
		if d.State != apitypes.JobSucceeded || len(d.Attempts) < 2 || first.Offer.Cloud != "gcp" {
			return fmt.Errorf("the job is %s: %s; %d attempts, the first on %s %s", d.State, d.Reason,
				len(d.Attempts), first.Offer.Cloud, first.Outcome)
		}
		said += fmt.Sprintf("\nattempt 1 on %s %s: %s\nthen on %s %s", first.Offer.InstanceType, first.Outcome,
			first.Reason, task(d, "waits").Offer, last.Outcome)
		return nil
	})
}

// forged sends a push without Google's token.
func (s *Story) forged(ctx context.Context) (string, error) {
	at := s.World.API + push.Path + "gcp"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader("{}"))
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer of.no.token")
	resp, err := http.DefaultClient.Do(req) //nolint:gosec // the rehearsal's own gateway
	if err != nil {
		return "", err
	}
	said := "a push without Google's token: " + resp.Status
	if err := resp.Body.Close(); err != nil {
		return said, err
	}
	if resp.StatusCode != http.StatusUnauthorized && !s.World.Chaos {
		return said, errors.New(said)
	}
	return said, nil
}

// doomed waits until the records show that a cluster's machines will be taken.
func (s *Story) doomed(ctx context.Context, cluster string) error {
	table, err := dynamo.New(s.World.Config, s.World.Stack.Name, dynamo.Options{})
	if err != nil {
		return err
	}
	u := txn.NewTransactor(table, time.Now, config.Config{}, txn.Hooks{}).NewUnit(ctx, "api")
	cl, found, err := recordcache.Get[record.Cluster](u, record.ClusterKey(cluster))
	if err == nil && (!found || cl.State != record.ClusterDoomed) {
		err = fmt.Errorf("the record of %s has state %q", cluster, cl.State)
	}
	return err
}
