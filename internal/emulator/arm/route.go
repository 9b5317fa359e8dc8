package arm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	computefake "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8/fake"
	resourcesfake "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resources/armresources/v3/fake"
	subscriptionsfake "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resources/armsubscriptions/fake"
)

// transport is one of the SDK's fake servers.
type transport interface {
	Do(*http.Request) (*http.Response, error)
}

// call is one request. The fake servers are created for each call, because they remember pages and operations by path,
// which real servers do not.
type call struct {
	*Server
	query url.Values
	base  string     // URL of the request, without the query
	op    *operation // operation that the request has started
}

func (c *call) compute() transport {
	return computefake.NewVirtualMachinesServerTransport(&computefake.VirtualMachinesServer{
		BeginCreateOrUpdate: c.create, BeginDelete: c.remove, Get: c.get,
		NewListPager: c.list, NewListAllPager: c.listAll,
	})
}

func (c *call) skus() transport {
	return computefake.NewResourceSKUsServerTransport(&computefake.ResourceSKUsServer{NewListPager: c.listSKUs})
}

func (c *call) usage() transport {
	return computefake.NewUsageServerTransport(&computefake.UsageServer{NewListPager: c.listUsage})
}

func (c *call) subscriptions() transport {
	return subscriptionsfake.NewServerTransport(&subscriptionsfake.Server{
		Get: c.subscription, NewListLocationsPager: c.locations,
	})
}

func (c *call) registrations() transport {
	return resourcesfake.NewProvidersServerTransport(
		&resourcesfake.ProvidersServer{Get: c.provider, Register: c.register},
	)
}

func (c *call) resourceGroups() transport {
	return resourcesfake.NewResourceGroupsServerTransport(&resourcesfake.ResourceGroupsServer{
		Get: c.group, CreateOrUpdate: c.makeGroup, BeginDelete: c.removeGroup,
	})
}

func (c *call) generic() transport {
	return resourcesfake.NewServerTransport(&resourcesfake.Server{
		NewListByResourceGroupPager: c.listResources, BeginCreateOrUpdateByID: c.put, GetByID: c.getByID,
		BeginDeleteByID: c.removeByID,
	})
}

// route is an operation of the API: the fake server that handles it, and its name there.
type route struct {
	method string
	path   *regexp.Regexp
	name   string
	server func(*call) transport
	kind   string
}

const (
	inSubscription = `^/subscriptions/[^/]+`
	inGroup        = inSubscription + `/resource[gG]roups/[^/]+`
	inReservations = inGroup + `/providers/Microsoft\.Compute/capacityReservationGroups/[^/]+/capacityReservations`
	authorization  = `/providers/Microsoft\.Authorization/[^/]+/[^/]+`
	ofDirectory    = `^/providers/Microsoft\.(BillingBenefits|Capacity)`
)

func path(text string) *regexp.Regexp { return regexp.MustCompile(text + `/?$`) }

var routes = []route{
	{"GET", path(inSubscription), "Client.Get", (*call).subscriptions, "subscription"},
	{"GET", path(inSubscription + `/locations`), "Client.NewListLocationsPager", (*call).subscriptions, "locations"},
	{"GET", path(inSubscription + `/providers/[^/]+`), "ProvidersClient.Get", (*call).registrations, "provider"},
	{
		"POST",
		path(inSubscription + `/providers/[^/]+/register`),
		"ProvidersClient.Register",
		(*call).registrations,
		"register",
	},
	{"GET", path(inGroup), "ResourceGroupsClient.Get", (*call).resourceGroups, "group"},
	{"PUT", path(inGroup), "ResourceGroupsClient.CreateOrUpdate", (*call).resourceGroups, "group"},
	{"DELETE", path(inGroup), "ResourceGroupsClient.BeginDelete", (*call).resourceGroups, "group"},
	{"GET", path(inGroup + `/resources`), "Client.NewListByResourceGroupPager", (*call).generic, "resources"},
	{"GET", path(inGroup + `/providers/Microsoft\.Compute/virtualMachines`), "VirtualMachinesClient.NewListPager",
		(*call).compute, "machines"},
	{
		"GET",
		path(inSubscription + `/providers/Microsoft\.Compute/virtualMachines`),
		"VirtualMachinesClient.NewListAllPager",
		(*call).compute,
		"statuses",
	},
	{"GET", path(inGroup + `/providers/Microsoft\.Compute/virtualMachines/[^/]+`), "VirtualMachinesClient.Get",
		(*call).compute, "machine"},
	{"PUT", path(inGroup + `/providers/Microsoft\.Compute/virtualMachines/[^/]+`),
		"VirtualMachinesClient.BeginCreateOrUpdate", (*call).compute, "machine"},
	{
		"DELETE",
		path(inGroup + `/providers/Microsoft\.Compute/virtualMachines/[^/]+`),
		"VirtualMachinesClient.BeginDelete",
		(*call).compute,
		"machine",
	},
	{
		"GET",
		path(inSubscription + `/providers/Microsoft\.Compute/skus`),
		"ResourceSKUsClient.NewListPager",
		(*call).skus,
		"skus",
	},
	{"GET", path(inSubscription + `/providers/Microsoft\.Compute/capacityReservationGroups`),
		"CapacityReservationGroupsClient.NewListBySubscriptionPager", (*call).reservedGroups, "reservation groups"},
	{"GET", path(inReservations), "CapacityReservationsClient.NewListByCapacityReservationGroupPager",
		(*call).reservations, "reservations"},
	{"GET", path(inReservations + `/[^/]+`), "CapacityReservationsClient.Get", (*call).reservations, "reservation"},
	{"GET", path(inSubscription + `/providers/Microsoft\.Compute/locations/[^/]+/usages`), "UsageClient.NewListPager",
		(*call).usage, "usages"},
	{"PUT", path(inSubscription + authorization), "Client.BeginCreateOrUpdateByID", (*call).generic, "resource"},
	{"GET", path(inSubscription + authorization), "Client.GetByID", (*call).generic, "resource"},
	{"DELETE", path(inSubscription + authorization), "Client.BeginDeleteByID", (*call).generic, "resource"},
	{"PUT", path(ofDirectory + authorization), "Client.BeginCreateOrUpdateByID", (*call).generic, "directory's right"},
	{"GET", path(ofDirectory + authorization), "Client.GetByID", (*call).generic, "directory's right"},
	{"DELETE", path(ofDirectory + authorization), "Client.BeginDeleteByID", (*call).generic, "directory's right"},
	{"PUT", path(inGroup + `/providers/.+`), "Client.BeginCreateOrUpdateByID", (*call).generic, "resource"},
	{"GET", path(inGroup + `/providers/.+`), "Client.GetByID", (*call).generic, "resource"},
	{"DELETE", path(inGroup + `/providers/.+`), "Client.BeginDeleteByID", (*call).generic, "resource"},
}

var (
	operationPath = regexp.MustCompile(
		inSubscription + `/providers/Microsoft\.Compute/locations/[^/]+/operations/([^/]+)$`,
	)
	permissionPath = regexp.MustCompile(inGroup + `/providers/Microsoft\.Authorization/permissions$`)
	plansPath      = regexp.MustCompile(`^/providers/Microsoft\.BillingBenefits/savingsPlans$`)
	boughtPath     = regexp.MustCompile(`^/providers/Microsoft\.Capacity/reservations$`)
	ratiosPath     = regexp.MustCompile(inSubscription + `/providers/Microsoft\.Capacity/catalogs$`)
)

func find(r *http.Request) *route {
	for i := range routes {
		if routes[i].method == r.Method && routes[i].path.MatchString(r.URL.Path) {
			return &routes[i]
		}
	}
	return nil
}

// kindOf returns the method and the kind of resource, such as "PUT machine".
func kindOf(r *http.Request) string {
	switch found := find(r); {
	case operationPath.MatchString(r.URL.Path):
		return r.Method + " operation"
	case permissionPath.MatchString(r.URL.Path):
		return r.Method + " permissions"
	case plansPath.MatchString(r.URL.Path):
		return r.Method + " savings plans"
	case boughtPath.MatchString(r.URL.Path):
		return r.Method + " reserved instances"
	case ratiosPath.MatchString(r.URL.Path):
		return r.Method + " ratios"
	case found != nil:
		return r.Method + " " + found.kind
	}
	return r.Method + " unknown"
}

func (s *Server) route(w http.ResponseWriter, r *http.Request) error {
	if m := operationPath.FindStringSubmatch(r.URL.Path); m != nil {
		return s.poll(w, m[1])
	}
	switch {
	case plansPath.MatchString(r.URL.Path):
		return s.savingsPlans(w, r)
	case boughtPath.MatchString(r.URL.Path):
		return s.reservedInstances(w, r)
	}
	return s.resource(w, r)
}

// resource answers a request for a resource or a list, of the subscription or of the directory.
func (s *Server) resource(w http.ResponseWriter, r *http.Request) error {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	directory := strings.EqualFold(parts[0], "providers")
	if !directory && (len(parts) < 2 || !strings.EqualFold(parts[1], s.cfg.Subscription)) {
		return fault(http.StatusNotFound, "SubscriptionNotFound", "The subscription '%s' could not be found.",
			parts[min(1, len(parts)-1)])
	}
	if permissionPath.MatchString(r.URL.Path) {
		if err := s.allowed(r, "permissions"); err != nil {
			return err
		}
		return s.permissions(w)
	}
	if ratiosPath.MatchString(r.URL.Path) {
		return s.ratios(w, r)
	}
	to := find(r)
	if to == nil {
		return fault(http.StatusNotFound, "InvalidResourceType", "No such operation here: %s "+
			"%s", r.Method, r.URL.Path)
	}
	if err := s.allowed(r, to.kind); err != nil {
		return err
	}
	return s.dispatch(w, r, to, parts, directory)
}

// dispatch passes a request to the SDK's fake server that handles it.
func (s *Server) dispatch(w http.ResponseWriter, r *http.Request, to *route, parts []string, directory bool) error {
	if !directory && len(parts) > 3 && strings.EqualFold(parts[2], "resourceGroups") && to.kind != "group" &&
		!s.groups[strings.ToLower(parts[3])] {
		return fault(http.StatusNotFound, "ResourceGroupNotFound", "Resource group '%s' could not be "+
			"found.", parts[3])
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if to.name == "VirtualMachinesClient.BeginCreateOrUpdate" {
		if err := s.published(body); err != nil {
			return err
		}
	}
	// The SDK's client passes a request to its transport in this form.
	c := &call{Server: s, query: r.URL.Query(), base: "http://" + r.Host + r.URL.Path}
	// Finish the request under the lock even if the client has gone.
	in := r.Clone(context.WithValue(context.WithoutCancel(r.Context()), runtime.CtxAPINameKey{}, to.name))
	in.URL.Scheme, in.URL.Host, in.Body = "http", r.Host, nil
	if len(body) > 0 {
		in.Body = io.NopCloser(bytes.NewReader(body))
	}
	out, err := to.server(c).Do(in)
	if err != nil {
		return c.refusal(err)
	}
	defer out.Body.Close() //nolint:errcheck // in memory
	return c.answer(w, r, out)
}

// answer forwards a fake server's answer, and adds Resource Manager's headers of an operation.
func (c *call) answer(w http.ResponseWriter, r *http.Request, out *http.Response) error {
	for k, v := range out.Header {
		w.Header()[k] = v
	}
	for k := range w.Header() {
		if strings.HasPrefix(k, "Fake-") {
			w.Header().Del(k)
		}
	}
	if c.op != nil {
		w.Header().Set("Azure-AsyncOperation", fmt.Sprintf(
			"http://%s/subscriptions/%s/providers/Microsoft.Compute/locations/%s/operations/%s?api-version=2025-04-01",
			r.Host, c.cfg.Subscription, c.op.location, c.op.id))
	}
	body, err := io.ReadAll(out.Body)
	if err != nil {
		return err
	}
	w.WriteHeader(out.StatusCode)
	// Here the SDK's fake server writes an empty model; the real service writes nothing.
	if c.op == nil && out.StatusCode != http.StatusNoContent || r.Method != http.MethodDelete {
		_, err = w.Write(body)
	}
	return err
}

// refusal converts a fake server's error.
func (c *call) refusal(err error) error {
	var f *Fault
	var response *azcore.ResponseError
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &response):
		return fault(response.StatusCode, response.ErrorCode, "%s", response.ErrorCode)
	}
	return fault(http.StatusBadRequest, "InvalidRequestContent", "%v", err)
}

// published rejects a machine with fields that the published models lack.
func (s *Server) published(body []byte) error {
	var vm armcompute.VirtualMachine
	if err := json.Unmarshal(body, &vm); err != nil {
		return fault(http.StatusBadRequest, "InvalidRequestContent", "The request content was invalid: %v", err)
	}
	again, err := json.Marshal(vm)
	if err != nil {
		return err
	}
	var was, is any
	if err := errors.Join(json.Unmarshal(body, &was), json.Unmarshal(again, &is)); err != nil {
		return err
	}
	if lacking := missing("", was, is); len(lacking) > 0 {
		s.strict = append(s.strict, lacking...)
		return fault(http.StatusBadRequest, "InvalidRequestContent",
			"Could not find member '%s' on object of type 'ResourceDefinition'.", lacking[0])
	}
	return nil
}

// missing returns the fields of one document that another lacks.
func missing(at string, was, is any) (lacking []string) {
	switch was := was.(type) {
	case map[string]any:
		other, _ := is.(map[string]any)
		for k, v := range was {
			if _, ok := other[k]; !ok {
				lacking = append(lacking, at+"/"+k)
				continue
			}
			lacking = append(lacking, missing(at+"/"+k, v, other[k])...)
		}
	case []any:
		other, _ := is.([]any)
		for i, v := range was {
			if i >= len(other) {
				return append(lacking, fmt.Sprintf("%s/%d", at, i))
			}
			lacking = append(lacking, missing(fmt.Sprintf("%s/%d", at, i), v, other[i])...)
		}
	}
	return lacking
}
