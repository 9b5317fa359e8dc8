package arm_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/emulator/arm"
)

// subscription sends requests without the SDK, so that tests see the raw answers.
type subscription struct {
	*testing.T
	*arm.Server
	url string

	mu  sync.Mutex
	now time.Time
}

func newSubscription(t *testing.T, cfg arm.Config) *subscription {
	s := &subscription{T: t, now: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)}
	cfg.Now = func() time.Time {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.now
	}
	s.Server = arm.New(cfg)
	server := httptest.NewServer(s.Server)
	t.Cleanup(server.Close)
	s.url = server.URL
	for kind, body := range map[string]string{
		"virtualNetworks/n": `{"location":"eastus","properties":{"addressSpace":{"addressPrefixes":["10.0.0.0/16"]},"subnets":[{"name":"s"}]}}`,
	} {
		if status, _, text := s.call("PUT", "/resourceGroups/tradewind/providers/Microsoft.Network/"+kind, body); status != http.StatusCreated {
			t.Fatalf("%d %s", status, text)
		}
	}
	return s
}

func (s *subscription) call(method, path, body string, header ...string) (int, http.Header, string) {
	s.Helper()
	if !strings.HasPrefix(path, "http") {
		path = s.url + "/subscriptions/" + arm.DefaultSubscription + path + "?api-version=2026-04-01"
	}
	req, err := http.NewRequestWithContext(s.Context(), method, path, bytes.NewBufferString(body))
	if err != nil {
		s.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+arm.Token)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err.Error()
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, res.Header, string(b)
}

const machines = "/resourceGroups/tradewind/providers/Microsoft.Compute/virtualMachines/"

// body returns the body of a request for a machine.
func body(more string) string {
	subnet := "/subscriptions/" + arm.DefaultSubscription + "/resourceGroups/tradewind/providers/Microsoft.Network/virtualNetworks/n/subnets/s"
	return fmt.Sprintf(`{"location":"eastus","properties":{%s"hardwareProfile":{"vmSize":"Standard_D2s_v5"},
		"osProfile":{"adminUsername":"a","computerName":"c","linuxConfiguration":{"ssh":{"publicKeys":[{"keyData":"ssh-rsa x"}]}}},
		"storageProfile":{"imageReference":{"publisher":"p","offer":"o","sku":"s","version":"v"},"osDisk":{"createOption":"FromImage","deleteOption":"Delete"}},
		"networkProfile":{"networkApiVersion":"2022-11-01","networkInterfaceConfigurations":[{"name":"n","properties":{"deleteOption":"Delete",
			"ipConfigurations":[{"name":"i","properties":{"subnet":{"id":%q}}}]}}]}}}`, more, subnet)
}

func TestCreateMachineIsAnOperation(t *testing.T) {
	s := newSubscription(t, arm.Config{Steps: 2})
	status, header, text := s.call("PUT", machines+"a", body(""))
	if status != http.StatusCreated || !strings.Contains(text, `"Creating"`) || header.Get("Fake-Poller-Status") != "" {
		t.Fatalf("%d %v %s", status, header, text)
	}
	at := header.Get("Azure-AsyncOperation")
	for _, want := range []string{"InProgress", "Succeeded", "Succeeded"} {
		if _, _, text := s.call("GET", at, ""); !strings.Contains(text, want) {
			t.Errorf("%s, want %s", text, want)
		}
	}
	if status, _, text := s.call("PUT", machines+"a", body(""), "If-None-Match", "*"); status != http.StatusPreconditionFailed || !strings.Contains(text, "ConditionNotMet") {
		t.Errorf("%d %s", status, text)
	}
	if status, _, text := s.call("PUT", machines+"a", body("")); status != http.StatusOK {
		t.Errorf("the same request again: %d %s", status, text)
	}
	status, header, _ = s.call("DELETE", machines+"a", "")
	if status != http.StatusAccepted || header.Get("Azure-AsyncOperation") == "" {
		t.Errorf("%d %v", status, header)
	}
	s.Settle()
	if status, _, text := s.call("GET", machines+"a", ""); status != http.StatusNotFound || !strings.Contains(text, "ResourceNotFound") {
		t.Errorf("%d %s", status, text)
	}
	if len(s.Leftovers()) != 0 {
		t.Error(s.Leftovers())
	}
}

func TestUnpublishedFieldsAreRejected(t *testing.T) {
	s := newSubscription(t, arm.Config{})
	status, _, text := s.call("PUT", machines+"a", body(`"spotRestorePolicy":{"enabled":true},`))
	if status != http.StatusBadRequest || !strings.Contains(text, "/properties/spotRestorePolicy") || len(s.Unpublished()) != 1 {
		t.Errorf("%d %s %v", status, text, s.Unpublished())
	}
	for name, change := range map[string][2]string{
		"no key": {`"publicKeys":[{"keyData":"ssh-rsa x"}]`, `"publicKeys":[]`}, "a small disk": {`"createOption"`, `"diskSizeGB":8,"createOption"`},
		"no subnet": {"/subnets/s", "/subnets/none"}, "no type": {"Standard_D2s_v5", "Standard_X"}, "ARM image": {`"sku":"s"`, `"sku":"s-arm64"`},
		"no JSON": {"{", "["}, "eviction without spot": {`"hardwareProfile"`, `"evictionPolicy":"Delete","hardwareProfile"`},
	} {
		if status, _, text := s.call("PUT", machines+"b", strings.Replace(body(""), change[0], change[1], 1)); status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	if len(s.Left()) != 0 {
		t.Error(s.Left())
	}
}

func TestBillFollowsRunningTime(t *testing.T) {
	s := newSubscription(t, arm.Config{})
	s.call("PUT", machines+"a", body(""))
	s.call("PUT", machines+"b", body(`"priority":"Spot","evictionPolicy":"Delete",`))
	s.Settle()
	s.mu.Lock()
	s.now = s.now.Add(90 * time.Minute)
	s.mu.Unlock()
	if err := s.Evict("b"); err != nil {
		t.Fatal(err)
	}
	if s.Evict("a") == nil {
		t.Error("an on-demand machine was evicted")
	}
	s.mu.Lock()
	s.now = s.now.Add(30 * time.Minute)
	s.mu.Unlock()
	s.call("DELETE", machines+"a", "")
	want := map[string]float64{"a": 2 * 0.096, "b": 1.5 * 0.0182}
	for _, b := range s.Bills() {
		if math.Abs(b.USD(s.now.Add(time.Hour))-want[b.Name]) > 1e-9 {
			t.Errorf("%+v costs %v, want %v", b, b.USD(s.now), want[b.Name])
		}
	}
	if len(s.Bills()) != 2 {
		t.Error(s.Bills())
	}
}

func TestRequestsNeedToken(t *testing.T) {
	s := newSubscription(t, arm.Config{})
	for name, token := range map[string]string{"AuthenticationFailed": "", "InvalidAuthenticationToken": "Bearer x"} {
		if status, _, text := s.call("GET", "", "", "Authorization", token); status != http.StatusUnauthorized || !strings.Contains(text, name) {
			t.Errorf("%d %s", status, text)
		}
	}
	s.Make(arm.Trouble{Kind: "PUT machine", Times: 1})
	if status, _, _ := s.call("PUT", machines+"a", body("")); status != 0 || len(s.Left()) != 1 {
		t.Errorf("want the answer lost and the request executed: %d, %v", status, s.Left())
	}
}

func TestPricesHavePages(t *testing.T) {
	s := newSubscription(t, arm.Config{})
	lines, pages := 0, 0
	for at := s.url + "/api/retail/prices?$filter=armRegionName%20eq%20'eastus'"; at != ""; pages++ {
		status, _, text := s.call("GET", at, "")
		var page struct {
			Items        []map[string]any
			NextPageLink string
		}
		if err := json.Unmarshal([]byte(text), &page); err != nil || status != http.StatusOK {
			t.Fatal(status, err)
		}
		for _, i := range page.Items {
			if i["armRegionName"] != "eastus" {
				t.Errorf("%v", i)
			}
		}
		lines, at = lines+len(page.Items), page.NextPageLink
	}
	if pages < 2 || lines != 5*5-2+1 {
		t.Errorf("%d lines in %d pages", lines, pages)
	}
}
