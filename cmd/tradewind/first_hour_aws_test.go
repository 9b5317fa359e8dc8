package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap/imdstest"
	"github.com/tradewind-broker/tradewind/internal/emulator"
)

// refusals are the launches that an account refuses.
type refusals struct {
	dry   atomic.Int32 // the number of launches to refuse for lack of capacity
	quota atomic.Bool  // whether the quota of vCPUs is used up
	next  http.Handler
}

// ServeHTTP implements http.Handler. Source: EC2 API reference, "Error codes".
func (r *refusals) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	q.Body = io.NopCloser(bytes.NewReader(body))
	form, _ := url.ParseQuery(string(body))
	code := ""
	switch launches := form.Get("Action") == "RunInstances" && form.Get("DryRun") != "true"; {
	case launches && r.quota.Load() && form.Get("InstanceMarketOptions.MarketType") == "spot":
		code = "MaxSpotInstanceCountExceeded"
	case launches && r.quota.Load():
		code = "VcpuLimitExceeded"
	case launches && r.dry.Add(-1) >= 0:
		code = "InsufficientInstanceCapacity"
	}
	if code == "" {
		r.next.ServeHTTP(w, q)
		return
	}
	w.WriteHeader(http.StatusBadRequest)
	_, _ = io.WriteString(w, "<Response><Errors><Error><Code>"+code+"</Code><Message>refused</Message></Error></Errors></Response>")
}

// testFirstHourAWS: the machines prove their identity, and an interruption is announced two minutes ahead.
func testFirstHourAWS(t *testing.T, s *shell) {
	moto, err := url.Parse(emulator.OwnMoto(t)) // no other test boots its machines
	if err != nil {
		t.Fatal(err)
	}
	refused := &refusals{next: httputil.NewSingleHostReverseProxy(moto)}
	web := httptest.NewServer(refused)
	t.Cleanup(web.Close)
	authority, err := imdstest.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	certificates := filepath.Join(t.TempDir(), "certificates.pem")
	if err := os.WriteFile(certificates, []byte(authority.Certificates()), 0o600); err != nil {
		t.Fatal(err)
	}
	client := ec2.NewFromConfig(emulator.Config(web.URL))
	h := &hypervisor{T: t, dir: t.TempDir(), authority: authority, machines: map[string]*instance{}, ec2: client}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { defer close(over); h.run(ctx) }()
	t.Cleanup(func() { cancel(); <-over })
	s.env = append(s.env, emulator.Env(web.URL)...)
	runFirstHour(t, s, &firstHour{
		cloud: "aws", add: "--regions us-east-1 --certificates " + certificates,
		files: map[string]string{"aws.csv": table(
			"m5.large,2,8,,,us-east-1,use1-az1,0.096,0.03", "m5.large,2,8,,,us-east-1,use1-az2,0.096,0.031")},
		running: func() (all []string) {
			out, err := client.DescribeInstances(ctx, &ec2.DescribeInstancesInput{})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range out.Reservations {
				for _, i := range r.Instances {
					if i.State.Name != types.InstanceStateNameTerminated {
						all = append(all, aws.ToString(i.InstanceId))
					}
				}
			}
			return all
		},
		interrupt: func(id string) { go h.take(ctx, id, 20*time.Second) },
		dry: func(is bool) {
			if refused.dry.Store(0); is {
				refused.dry.Store(1)
			}
		},
		quota: refused.quota.Store,
		left: func() (all []string) {
			out, err := client.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{})
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range out.SecurityGroups {
				if name := aws.ToString(g.GroupName); !strings.HasSuffix(name, "-machines") { // it stays, and is free
					all = append(all, name)
				}
			}
			volumes, err := client.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{})
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range volumes.Volumes {
				all = append(all, strings.TrimSpace("volume "+aws.ToString(v.VolumeId)))
			}
			slices.Sort(all)
			return all
		},
	})
}
