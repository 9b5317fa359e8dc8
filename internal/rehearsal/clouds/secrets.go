package clouds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/emulator/vault"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

// Secrets that the clouds keep for the tasks of the rehearsal.
const (
	googleSecret = "kept-at-google-7f3a91" //nolint:gosec // of an emulator
	azureSecret  = "kept-at-azure-c02d5e"  //nolint:gosec // of an emulator
)

// vaults starts the secret stores of Google and Azure and returns their addresses by the cloud's name.
func (w *World) vaults() (map[string]string, error) {
	google, err := vault.NewGoogle(vault.Secrets{
		"projects/" + project + "/secrets/hf/versions/latest":    {Value: googleSecret},
		"projects/" + project + "/secrets/owner/versions/latest": {Value: "private"},
	})
	if err != nil {
		return nil, err
	}
	azure := vault.NewAzure(vault.Secrets{"team/wandb-key": {Value: azureSecret}}, "")
	return map[string]string{
		"gcp": w.serve(httptest.NewServer(google)), "azure": w.serve(httptest.NewServer(azure)),
	}, nil
}

// kept is a job whose task first prints only the ends of its secrets, to show that it has them, and then prints the
// secrets.
const kept = `apiVersion: tradewind/v1
name: kept
budget: 5 USD
tasks:
  uses:
    secrets: {HF: "gcpsm:projects/` + project + `/secrets/%s", WANDB: "keyvault:team/wandb-key"}
    run: |
      echo "they end in ${HF##*-} and ${WANDB##*-}"
      echo "they are $HF and $WANDB"
    resources: {cpus: 2, market: on-demand}
    time: 5m
`

// keeps checks that the function of each cloud fetches only the secrets in its settings, that the task has them, and
// that its log does not.
func (s *Story) keeps(ctx context.Context) (string, error) {
	_, err := s.client.Submit(ctx, "owner.yaml", "owner", fmt.Appendf(nil, kept, "owner"), nil)
	if err == nil || !strings.Contains(err.Error(), "reads only") {
		return "", fmt.Errorf("a secret that is not in the settings: %w", err)
	}
	refused := err.Error()
	id, err := s.submit(ctx, "kept", fmt.Sprintf(kept, "hf"))
	if err != nil {
		return "", err
	}
	said := ""
	err = until(ctx, func() error {
		d, err := s.client.Job(ctx, id)
		if err != nil {
			return err
		}
		if d.State != apitypes.JobSucceeded {
			return fmt.Errorf("the job is %s: %s", d.State, d.Reason)
		}
		log, err := s.client.Log(ctx, id, "uses", client.LogOptions{})
		if err != nil {
			return err
		}
		defer log.Close() //nolint:errcheck // only read
		text, err := io.ReadAll(log)
		if err != nil {
			return err
		}
		said = strings.TrimSpace(string(text))
		if !strings.Contains(said, "they end in 7f3a91 and c02d5e") || !strings.Contains(said, "they are *** and ***") {
			return errors.New("its log is " + said)
		}
		return nil
	})
	return said + "\nanother: " + refused, err
}
