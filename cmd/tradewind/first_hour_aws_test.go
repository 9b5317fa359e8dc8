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
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap/imdstest"
	"github.com/tradewind-broker/tradewind/internal/emulator"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// refusals makes an account refuse launches.
type refusals struct {
	dry   atomic.Int32 // number of launches to refuse for lack of capacity
	quota atomic.Bool  // whether the quota of vCPUs is used up
	older atomic.Int64 // age that is added to listed machines, in nanoseconds
	next  *httputil.ReverseProxy
}

var launchTime = regexp.MustCompile(`<launchTime>([^<]+)</launchTime>`)

// aged changes the launch times in an answer.
func (r *refusals) aged(res *http.Response) error {
	by := time.Duration(r.older.Load())
	body, err := io.ReadAll(res.Body)
	if err != nil || by == 0 {
		res.Body = io.NopCloser(bytes.NewReader(body))
		return err
	}
	body = launchTime.ReplaceAllFunc(body, func(found []byte) []byte {
		at, err := time.Parse(time.RFC3339, string(launchTime.FindSubmatch(found)[1]))
		if err != nil {
			return found
		}
		return []byte("<launchTime>" + at.Add(-by).Format(time.RFC3339) + "</launchTime>")
	})
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	res.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return nil
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

// testFirstHourAWS rehearses AWS. Its machines prove their identity, and an interruption is announced two minutes
// ahead.
func testFirstHourAWS(t *testing.T, s *shell) {
	moto, err := url.Parse(emulator.OwnMoto(t)) // an emulator of its own, so that no other test boots its machines
	if err != nil {
		t.Fatal(err)
	}
	refused := &refusals{next: httputil.NewSingleHostReverseProxy(moto)}
	refused.next.ModifyResponse = refused.aged
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
				all = append(all, aws.ToString(g.GroupName))
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
		offer: apitypes.Offer{Cloud: "aws", Region: "us-east-1", Zone: "use1-az1", InstanceType: "m5.large", USDPerHour: 0.096},
		age:   func(by time.Duration) { refused.older.Store(int64(by)) },
	})
}
