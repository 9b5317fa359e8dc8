package e2e_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap"
	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap/imdstest"
)

// program is the path of the agent's program: this binary.
func program() string {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return "#!/bin/sh\nexec '" + self + "' \"$@\"\n"
}

func digest(program string) string {
	sum := sha256.Sum256([]byte(program))
	return hex.EncodeToString(sum[:])
}

// offerProgram puts the agent's program into the place from which machines download it.
func (w *world) offerProgram(ctx context.Context) {
	w.Helper()
	_, err := w.s3().PutObject(ctx, &s3.PutObjectInput{
		Bucket: aws.String(w.name + "-work"), Key: aws.String("agent/" + digest(program()) + "/tradewind-agent"), Body: strings.NewReader(program()),
	})
	if err != nil {
		w.Fatal(err)
	}
}

// booted is a machine that runs its user data, as EC2 and cloud-init do.
type booted struct {
	imds     *imdstest.Machine
	metadata string // URL
	root     string // of its disk
}

// boot starts an EC2 machine as a process, with additional variables that its image would set.
func (w *world) boot(ctx context.Context, i types.Instance, image ...string) booted {
	w.Helper()
	id := aws.ToString(i.InstanceId)
	m := booted{imds: w.metadata(id), root: w.TempDir()}
	m.imds.LaunchIndex, m.imds.UserData = int(aws.ToInt32(i.AmiLaunchIndex)), w.userData(ctx, id)
	service := httptest.NewServer(m.imds)
	w.Cleanup(service.Close)
	m.metadata = service.URL
	script := filepath.Join(m.root, "user-data")
	if err := os.WriteFile(script, plain(w.T, m.imds.UserData), 0o600); err != nil {
		w.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, "bash", script)
	cmd.Dir = m.root
	cmd.Env = append(image, "PATH="+os.Getenv("PATH"), "HOME="+m.root, "LANG=C.UTF-8", "TRADEWIND_PAUSE=0.1",
		bootstrap.EnvRoot+"="+m.root, bootstrap.EnvMetadata+"="+m.metadata)
	w.agents.Go(func() {
		if out, err := cmd.CombinedOutput(); err != nil && ctx.Err() == nil {
			w.Logf("machine %s: %v\n%s", id, err, out)
		}
	})
	return m
}
