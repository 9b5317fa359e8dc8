package e2e_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/tradewind-broker/tradewind/internal/cli"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/skytest"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// TestSkyPilotFile submits, by the command line with signed requests, the file that another test runs in one process. A
// machine boots with the real boot script, downloads its agent and rclone from the deployment, and has podman and FUSE.
//
// The table is DynamoDB Local; queues, the bus, EC2 and SSM are moto's. S3 and STS are MinIO, as moto checks no
// signature and no session policy: a request beyond what the machine is lent or granted fails. The machine is a process on this computer below a root of its own, so its podman is the computer's.
func TestSkyPilotFile(t *testing.T) {
	if testing.Short() {
		t.Skip("starts emulators")
	}
	sky := skytest.New(t)
	rclone, err := os.ReadFile(sky.Rclone())
	if err != nil {
		t.Fatal(err)
	}
	key := "agent/" + digest(string(rclone)) + "/rclone"
	w := deployWith(t, sky.S3(), []string{
		"TRADEWIND_MOUNTS_ROLE=" + skytest.Role, "TRADEWIND_RCLONE_KEY=" + runtime.GOARCH + "=" + key,
	})
	ctx, cancel := context.WithTimeout(t.Context(), hangs)
	defer cancel()
	defer w.agents.Wait()
	defer cancel()
	w.offerProgram(ctx)
	if _, err := w.s3().PutObject(ctx, &s3.PutObjectInput{
		Bucket: aws.String(w.name + "-work"), Key: &key, Body: strings.NewReader(string(rclone)),
	}); err != nil {
		t.Fatal(err)
	}
	t.Chdir(skytest.Folder(t))
	var said strings.Builder
	if code := cli.Run(ctx, &cli.Env{Env: command.Env{
		In: strings.NewReader(""), Out: &said, Err: &said, Now: time.Now, Exit: os.Exit,
		Environ: append(os.Environ(), "TRADEWIND_SIGN_REGION=us-east-1", skytest.Secret+"="+skytest.Token),
	}}, []string{
		"submit", skytest.File, "--endpoint", w.api.URL, "--secret", skytest.Secret, "--env", skytest.Variable,
	}); code != 0 {
		t.Fatalf("exit %d\n%s", code, said.String())
	}
	var machines []booted
	job := w.untilOver(ctx, func(i types.Instance) {
		machines = append(machines, w.boot(ctx, i, sky.Machine()...))
	})
	if job.State != apitypes.JobSucceeded || len(machines) != 1 {
		t.Fatalf("%d machines, %+v\n%s", len(machines), job, w.log.String())
	}
	log := w.text(ctx, "/v1/jobs/"+job.ID+"/tasks/whole/logs?follow=true")
	if !strings.HasSuffix(log, skytest.Log) {
		t.Errorf("the log ends otherwise:\n%s\nwant\n%s", log, skytest.Log)
	}
	sky.CheckBuckets()
	for n := 0; !sky.Gone(ctx) && ctx.Err() == nil; n++ { // reconcile removes the bucket that was created for the job
		w.reconcile(ctx, "r"+strconv.Itoa(n))
		w.quiet(ctx)
	}
	if running := w.instances(ctx); len(running) > 0 || !sky.Gone(ctx) {
		t.Errorf("%d machines are left, the bucket is gone: %v", len(running), sky.Gone(ctx))
	}
	fetched, err := filepath.Glob(machines[0].root + "/var/lib/tradewind/work/programs/rclone-*")
	if err != nil || len(fetched) != 1 {
		t.Errorf("the machine's rclone: %q %v", fetched, err)
	}
	if strings.Contains(w.log.String(), skytest.Token) {
		t.Error("the functions' log has the secret")
	}
}
