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

	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/kits"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/cloud/push"
)

// tell makes what `cloud add gcp --aws-account ID --dags PLACE --push-url API` makes, and has Google's audit log tell on
// the same topic.
func (w *World) tell(ctx context.Context, google string) error {
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
		err = fmt.Errorf("it is pushed as %s and not as %s", made.PushAccount, pushAccount)
	}
	w.Google.Sink("tradewind-" + w.Stack.Name)
	return err
}

// put writes a file into the bucket whose files are jobs, and get reads one; there is none where it is empty.
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

// fromBucket is a job that waits, on its first machine, until that is taken.
const fromBucket = `apiVersion: tradewind/v1
name: from-bucket
budget: 5 USD
tasks:
  waits:
    run: |
      state="$TRADEWIND_CHECKPOINT/seen"
      if [ -e "$state" ]; then echo "going on"; exit 0; fi
      echo 1 >"$state"
      while :; do sleep 0.2; done
    checkpoint: {every: 2s, path: ckpt/, size: 1MiB}
    resources: {cpus: 16+, market: spot}
    time: 20m
`

// dropped: the bucket tells by Pub/Sub, which pushes to the API; Google's function checks the token and reads the file.
func (s *Story) dropped(ctx context.Context) (said string, err error) {
	w := s.World
	err = errors.Join(w.put(ctx, "dags/broken.yaml", strings.Replace(fromBucket, "run:", "rum:", 1)),
		w.put(ctx, "dags/team/from-bucket.yaml", fromBucket))
	if err != nil {
		return "", err
	}
	return said, until(ctx, func() error {
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
				return fmt.Errorf("there are two jobs of it: %s and %s", s.drop, j.ID)
			}
			s.drop = j.ID
		}
		if s.drop == "" {
			return errors.New("no job of it yet")
		}
		remark, err := w.get(ctx, "dags/broken.yaml.error.txt")
		said = fmt.Sprintf("gs://%s/dags/team/from-bucket.yaml is %s\nbeside the other: %s", jobsBucket, s.drop,
			strings.TrimSpace(remark))
		return err
	})
}

// pushed: a push is believed by its token alone, and what it says is acted upon while the machine still runs.
func (s *Story) pushed(ctx context.Context) (said string, err error) {
	w := s.World
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.API+push.Path+"gcp", strings.NewReader("{}"))
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer of.no.token")
	resp, err := http.DefaultClient.Do(req) //nolint:gosec // the rehearsal's own gateway
	if err != nil {
		return "", err
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusUnauthorized && !w.Chaos {
		return "", fmt.Errorf("a push without Google's token: %s %w", resp.Status, err)
	}
	said = "a push without Google's token: " + resp.Status
	told, id := "", ""
	err = until(ctx, func() error {
		d, err := s.client.Job(ctx, s.drop)
		if err != nil {
			return err
		}
		keys, err := s.stored(ctx, "gs://"+googleBucket, s.drop, "ckpt")
		if err != nil || len(keys) == 0 {
			return errors.Join(err, fmt.Errorf("no checkpoint yet; %s", task(d, "waits").State))
		}
		for _, b := range w.Google.Bills() {
			if b.Until.IsZero() && b.Spot && w.Google.PreemptUnheard(b.ID) {
				told, id = b.Name, b.ID
				return nil
			}
		}
		return fmt.Errorf("no spot machine of Google's; %s", task(d, "waits").State)
	})
	if err != nil {
		return said, err
	}
	// The machine runs, and its agent has heard nothing: whatever is planned now, the push has brought about.
	err = until(ctx, func() error {
		d, err := s.client.Job(ctx, s.drop)
		if err == nil && len(d.Plans) < 2 {
			err = fmt.Errorf("nothing is planned anew; %s", task(d, "waits").State)
		}
		return err
	})
	if err != nil {
		return said, err
	}
	w.Google.Take(id)
	return said, until(ctx, func() error {
		d, err := s.client.Job(ctx, s.drop)
		if err != nil {
			return err
		}
		if d.State != record.JobSucceeded {
			return fmt.Errorf("the job is %s: %s; %d attempts", d.State, d.Reason, len(d.Attempts))
		}
		first, last := d.Attempts[0], d.Attempts[len(d.Attempts)-1]
		if len(d.Attempts) < 2 || first.Offer.Cloud != "gcp" || last.Outcome != record.OutcomeSucceeded {
			return fmt.Errorf("%d attempts, the first on %s %s", len(d.Attempts), first.Offer.Cloud, first.Outcome)
		}
		said += fmt.Sprintf("\n%s: attempt 1 on %s %s: %s\nthen on %s", told, first.Offer.InstanceType, first.Outcome,
			first.Reason, task(d, "waits").Offer)
		return nil
	})
}
