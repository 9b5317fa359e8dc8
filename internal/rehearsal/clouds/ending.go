package clouds

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tradewind-broker/tradewind/internal/emulator/lambdacloud"
	"github.com/tradewind-broker/tradewind/internal/grant/servers"
)

// billed compares, by cloud, the booked cost of the attempts with the real cost of the machines. A machine is booked
// from before it exists until after its end, and for at least a minute; so the booked cost must be at least the
// billed one, and at most some minutes of each machine more.
func (s *Story) billed(ctx context.Context) (said string, err error) {
	const beyond = 6 * time.Minute // Azure is booked for five minutes at least
	booked, most, billed := map[string]float64{}, map[string]float64{}, map[string]float64{}
	lines := map[string]string{} // what was booked, for a failure
	for _, id := range append([]string{s.data, s.drop, s.early, s.job, s.next}, s.theirs...) {
		d, err := s.client.Job(ctx, id)
		if err != nil {
			return "", err
		}
		for _, a := range d.Attempts {
			booked[a.Offer.Cloud] += a.USD - a.EgressUSD // egress was compared before
			lines[a.Offer.Cloud] += fmt.Sprintf("\n%s %d.%d on %s: %.6f USD at %.4f an hour, %s to %s", id, a.Task,
				a.Number, a.Offer.InstanceType, a.USD-a.EgressUSD, max(a.Offer.USDPerHour, a.RateUSD),
				a.Launched.Format(time.TimeOnly), a.Ended.Format(time.TimeOnly))
			most[a.Offer.Cloud] += beyond.Hours() * max(a.Offer.USDPerHour, a.RateUSD) * float64(a.Nodes)
		}
	}
	for _, b := range s.World.Google.Bills() {
		billed["gcp"] += b.USD
	}
	for _, b := range s.World.Azure.Bills() {
		billed["azure"] += b.USD(time.Now())
	}
	for _, b := range s.World.Lambda.Bills() {
		billed["lambda"] += b.To.Sub(b.From).Hours() * 0.75 // it bills by the minute; the broker counts at least one
	}
	for _, cloud := range []string{"gcp", "azure", "lambda"} {
		said += fmt.Sprintf("%-6s booked %.6f USD, billed %.6f\n", cloud, booked[cloud], billed[cloud])
		if billed[cloud] == 0 {
			err = errors.Join(err, fmt.Errorf("%s has billed nothing", cloud))
		}
		if booked[cloud] < billed[cloud]*0.999 || booked[cloud] > billed[cloud]+most[cloud] {
			err = errors.Join(err, fmt.Errorf("%s: booked %.6f, billed %.6f%s", cloud, booked[cloud], billed[cloud],
				lines[cloud]))
		}
	}
	return said, err
}

// nothingLeft checks each cloud directly, without the drivers.
func (s *Story) nothingLeft(ctx context.Context) (string, error) {
	w := s.World
	w.Azure.ClearTroubles()
	return "no machine, disk, address, interface or group", until(ctx, func() error {
		var left []string
		for _, b := range w.Google.Bills() {
			if b.Until.IsZero() {
				left = append(left, "gcp machine "+b.Name)
			}
		}
		for _, b := range w.Azure.Bills() {
			if b.To.IsZero() {
				left = append(left, "azure machine "+b.Name)
			}
		}
		left = append(left, w.Google.Leftovers()...)
		left = append(left, w.Azure.Leftovers()...)
		left = append(left, w.Lambda.LiveMachines()...)
		left = append(left, w.Hypervisor.Running()...)
		if len(left) > 0 {
			return fmt.Errorf("remaining: %s", strings.Join(left, ", "))
		}
		return nil
	})
}

// described checks that every call was allowed by a role and exists in the cloud's description.
func (s *Story) described(context.Context) (string, error) {
	if denied := s.World.Rights.Denied(); len(denied) > 0 {
		return "", fmt.Errorf("denied: %v", denied)
	}
	if faults := s.World.Faults(); len(faults) > 0 {
		return "", fmt.Errorf("not in the clouds' descriptions: %s", strings.Join(faults, "; "))
	}
	return fmt.Sprintf("%d calls of %d functions; %d requests to the other clouds were throttled",
		s.World.Count.Total(), len(s.World.Functions), s.World.throttled.Load()), nil
}

// noSecrets looks for the key of Lambda's cloud and for private keys in everything that the deployment and machines
// store.
func (s *Story) noSecrets(ctx context.Context) (string, error) {
	secrets := [][]byte{
		[]byte(lambdacloud.DefaultKey), []byte("PRIVATE KEY"), []byte(servers.AzureKey), []byte(s.World.Delegation),
		[]byte("X-Goog-Signature="), []byte("sig="), // of URLs that were signed
		[]byte(googleSecret), []byte(azureSecret),
	}
	items, files := 0, 0
	found := func(where string, raw []byte) error {
		for _, secret := range secrets {
			if bytes.Contains(raw, secret) {
				return fmt.Errorf("a secret is in %s", where)
			}
		}
		return nil
	}
	pages := dynamodb.NewScanPaginator(dynamodb.NewFromConfig(s.World.Config),
		&dynamodb.ScanInput{TableName: &s.World.Stack.Name})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return "", err
		}
		for _, item := range page.Items {
			items++
			for name, v := range item {
				if b, ok := v.(*types.AttributeValueMemberB); ok {
					if err := found("the table, "+name, b.Value); err != nil {
						return "", err
					}
				}
				if err := found("the table, "+name, fmt.Appendf(nil, "%v", v)); err != nil {
					return "", err
				}
			}
		}
	}
	for _, dir := range []string{s.World.Dir, s.World.Assembly} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			program := strings.Contains(path, "/agent/") || strings.Contains(path, "/asset")
			if err != nil || !d.Type().IsRegular() || program {
				return nil //nolint:nilerr // a machine's disk is deleted with it; programs contain words, not keys
			}
			raw, err := os.ReadFile(path) //nolint:gosec // in the rehearsal's own folders
			if err != nil {
				return nil //nolint:nilerr // the file was deleted
			}
			files++
			return found(path, raw)
		})
		if err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("in none of %d items of the table and of %d files", items, files), nil
}

// Aftermath prints information for debugging a failure.
func (s *Story) Aftermath(ctx context.Context, out interface{ Write([]byte) (int, error) }) {
	logs, _ := filepath.Glob(filepath.Join(s.World.Dir, "logs", "*.log"))
	consoles, _ := filepath.Glob(filepath.Join(s.World.Dir, "machines", "*", "console.log"))
	for _, p := range append(logs, consoles...) {
		raw, err := os.ReadFile(p) //nolint:gosec // in the rehearsal's own folder
		if err == nil && len(raw) > 0 {
			_, _ = fmt.Fprintf(out, "--- %s\n%s\n", p, raw[max(0, len(raw)-1500):])
		}
	}
	for _, id := range append([]string{s.data, s.drop, s.early, s.job, s.next}, s.theirs...) {
		if d, err := s.client.Job(ctx, id); err == nil {
			for _, a := range d.Attempts {
				_, _ = fmt.Fprintf(out, "%s %d.%d %s on %s/%s: %s\n", id, a.Task, a.Number, a.Outcome, a.Offer.Cloud,
					a.Offer.InstanceType, a.Reason)
			}
			_, _ = fmt.Fprintf(out, "%s is %s %s\n", id, d.State, d.Reason)
		}
	}
}
