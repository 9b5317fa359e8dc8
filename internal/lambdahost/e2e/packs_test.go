package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/objects"
	"github.com/tradewind-broker/tradewind/internal/localfiles"
	"github.com/tradewind-broker/tradewind/internal/pack"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

// TestCodeIsUploadedDirectlyToBucket uploads a folder to S3 by signed URLs, because its pieces exceed the maximum
// request of a function. It submits a job that names the folder, and unpacks it from S3.
func TestCodeIsUploadedDirectlyToBucket(t *testing.T) {
	if testing.Short() {
		t.Skip("starts emulators")
	}
	w := deploy(t)
	ctx := t.Context()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.py"), []byte("print(1)"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "zeros"), make([]byte, 20<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	c := client.NewSigned(w.api.URL, "us-east-1", w.cfg.Credentials)
	job := func(workdir string) []byte {
		return fmt.Appendf(nil, "apiVersion: tradewind/v1\nname: bring\ntasks:\n  a: {run: ls, workdir: %q}\n", workdir)
	}
	tree, err := pack.Pack(ctx, dir, pack.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	var bad *apitypes.Problem
	if _, err := c.Submit(ctx, "job.yaml", "", job(tree.URI()), nil); !errors.As(err, &bad) ||
		bad.Status != http.StatusUnprocessableEntity || bad.Line != 4 || !strings.Contains(bad.Reason, "not uploaded") {
		t.Errorf("a missing pack: %v", err)
	}
	var sent []int64
	sender := localfiles.Sender{Asker: c, Sent: func(n, _ int64) { sent = append(sent, n) }}
	if err := sender.Send(ctx, tree); err != nil {
		t.Fatal(err)
	}
	if len(sent) != 5 { // of 20 MiB of zeros the first two pieces are one; the third has main.py; the list; and the beginning
		t.Errorf("sent %v", sent)
	}
	if _, err := c.Submit(ctx, "job.yaml", "", job(tree.URI()), nil); err != nil {
		t.Error(err)
	}
	if state := w.scheduleState(ctx, "reconcile"); state != "ENABLED" {
		t.Errorf("the job's schedule is %s", state)
	}
	again := localfiles.Sender{Asker: c, Sent: func(n, of int64) {
		if of != 0 {
			t.Errorf("%d of %d bytes are sent again", n, of)
		}
	}}
	if err := again.Send(ctx, tree); err != nil {
		t.Fatal(err)
	}

	d := objects.NewDepot(w.front)
	u, err := pack.ParseURI(tree.URI())
	if err != nil {
		t.Fatal(err)
	}
	l, err := pack.ReadList(ctx, d, u.Digest)
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	root, err := os.OpenRoot(out)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := pack.Unpack(ctx, d, l, root, "."); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(out, "main.py")); err != nil || info.Mode().Perm() != 0o755 {
		t.Error(info, err)
	}
	// The daily check for old pieces uses S3's time, by which the piece was just written.
	d.Now = func() time.Time { return time.Now().Add(20 * 24 * time.Hour) }
	if err := d.Stay(ctx, tree.URI()); err != nil {
		t.Error(err)
	}
	if err := d.Check(ctx, tree.URI()); !errors.Is(err, pack.ErrIncomplete) { // by that clock it is old
		t.Error(err)
	}
}

// TestSecretsAreSealedInTable: secrets that the API receives are not readable in DynamoDB. A reference is followed only
// below the deployment's own paths. Only the agent receives the secret.
func TestSecretsAreSealedInTable(t *testing.T) {
	if testing.Short() {
		t.Skip("starts emulators")
	}
	w := deploy(t)
	ctx := t.Context()
	c := client.NewSigned(w.api.URL, "us-east-1", w.cfg.Credentials)
	file := []byte("run: x\nsecrets:\n  TOKEN:\n")
	var bad *apitypes.Problem
	for _, given := range []string{"ssm:a", "gcpsm:projects/p/secrets/hf", "keyvault:team/hf", "kubernetes:ml/hf/token", "ssm:" + w.front.Env.TokenKey, "ssm:/" + w.front.Env.Deployment + "/secrets/none"} {
		_, err := c.Submit(ctx, "job.yaml", "", file, map[string]string{"TOKEN": given})
		if !errors.As(err, &bad) || bad.Status != http.StatusUnprocessableEntity || bad.Line != 3 {
			t.Errorf("%s: %v", given, err)
		}
	}
	job, err := c.Submit(ctx, "job.yaml", "", file, map[string]string{"TOKEN": "hunter2"})
	if err != nil {
		t.Fatal(err)
	}
	kept, err := w.front.Store.Get(ctx, record.SecretsKey(job.ID, 1))
	if err != nil || len(kept) != 1 || len(kept[0].Body) == 0 || strings.Contains(string(kept[0].Body), "hunter2") {
		t.Errorf("%v %+v", err, kept)
	}
}
