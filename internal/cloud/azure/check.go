package azure

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resources/armsubscriptions"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
)

// Actions are the rights that the driver needs in its resource group. The network rights are needed once per region;
// regions with a subnet in Config.Subnets need only join.
func Actions() []string {
	return []string{
		"Microsoft.Compute/virtualMachines/read", "Microsoft.Compute/virtualMachines/write",
		"Microsoft.Compute/virtualMachines/delete", "Microsoft.Compute/disks/read", "Microsoft.Compute/disks/write",
		"Microsoft.Compute/disks/delete", "Microsoft.Network/networkInterfaces/read",
		"Microsoft.Network/networkInterfaces/write", "Microsoft.Network/networkInterfaces/delete",
		"Microsoft.Network/networkInterfaces/join/action", "Microsoft.Network/publicIPAddresses/read",
		"Microsoft.Network/publicIPAddresses/write", "Microsoft.Network/publicIPAddresses/delete",
		"Microsoft.Network/publicIPAddresses/join/action", "Microsoft.Network/virtualNetworks/read",
		"Microsoft.Network/virtualNetworks/write", "Microsoft.Network/virtualNetworks/subnets/join/action",
		"Microsoft.Network/networkSecurityGroups/read", "Microsoft.Network/networkSecurityGroups/write",
		"Microsoft.Network/networkSecurityGroups/join/action", "Microsoft.Resources/subscriptions/resourceGroups/read",
		"Microsoft.Resources/subscriptions/resourceGroups/resources/read",
	}
}

// Providers are the resource providers for which the subscription must be registered.
func Providers() []string { return []string{"Microsoft.Compute", "Microsoft.Network"} }

// maxSkew is the largest difference of the clocks that is not reported.
const maxSkew = 5 * time.Minute

// Check implements driver.Checker.
func (c *Cloud) Check(ctx context.Context) (driver.Report, error) {
	r := driver.Report{Account: c.cfg.Subscription}
	if c.checkIdentity(ctx, &r) && c.checkSubscription(ctx, &r) {
		c.checkProviders(ctx, &r)
		if c.checkGroup(ctx, &r) {
			c.checkRights(ctx, &r)
		}
		c.checkRegions(ctx, &r)
		c.checkSubnets(ctx, &r)
		c.checkQuotas(ctx, &r)
	}
	return r, ctx.Err()
}

// checkIdentity gets a token and reads its owner. It does not verify the token, because Azure does.
func (c *Cloud) checkIdentity(ctx context.Context, r *driver.Report) bool {
	call, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	token, err := c.cfg.Credential.GetToken(call,
		policy.TokenRequestOptions{Scopes: []string{c.audience() + "/.default"}})
	if err != nil {
		r.Missing = append(r.Missing,
			driver.Lack{What: "Azure gives no token: " + firstLine(err.Error()), Mend: "az login", Fatal: true})
		return false
	}
	r.Identity = Whose(token.Token)
	return true
}

func (c *Cloud) audience() string {
	configuration := cloud.AzurePublic
	if c.cfg.Options != nil && len(c.cfg.Options.Cloud.Services) > 0 {
		configuration = c.cfg.Options.Cloud
	}
	if audience := configuration.Services[cloud.ResourceManager].Audience; audience != "" {
		return strings.TrimSuffix(audience, "/")
	}
	return "https://management.core.windows.net"
}

// Whose returns the owner in an access token: a user's name, or an application's ID. It is empty if the token
// contains neither.
func Whose(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var claims struct {
		UPN    string `json:"upn"`
		Unique string `json:"unique_name"`
		Name   string `json:"app_displayname"`
		App    string `json:"appid"`
		Object string `json:"oid"`
	}
	if json.Unmarshal(raw, &claims) != nil {
		return ""
	}
	return cmp.Or(claims.UPN, claims.Unique, claims.Name, claims.App, claims.Object)
}

// checkSubscription gets the subscription, and compares the clocks.
func (c *Cloud) checkSubscription(ctx context.Context, r *driver.Report) bool {
	var response *http.Response
	call, cancel := context.WithTimeout(policy.WithCaptureResponse(ctx, &response), readWithin)
	defer cancel()
	out, err := c.subscriptions.Get(call, c.cfg.Subscription, nil)
	off := c.skewOf(response)
	switch {
	case off > maxSkew || off < -maxSkew:
		lack := driver.Lack{
			What: fmt.Sprintf("this machine's clock is off by %v", off.Round(time.Second)),
			Mend: "timedatectl set-ntp true",
		}
		if err != nil {
			lack.What, lack.Fatal = lack.What+": "+cloudMessage(err), true
		}
		r.Missing = append(r.Missing, lack)
		return err == nil
	case err != nil:
		r.Missing = append(r.Missing, c.lack("the subscription cannot be read", err))
		return false
	case text(out.State) != "Enabled" && text(out.State) != "Warned" && text(out.State) != "PastDue":
		r.Missing = append(r.Missing, driver.Lack{What: "the subscription is " + text(out.State), Fatal: true,
			Mend: "az account show --subscription " + c.cfg.Subscription})
		return false
	}
	if p := out.SubscriptionPolicies; p != nil && text(p.SpendingLimit) == string(armsubscriptions.SpendingLimitOn) {
		r.Missing = append(r.Missing, driver.Lack{
			What: "the subscription has a spending limit (" + text(p.QuotaID) +
				"), so Azure sells it no spot machines and disables it when its credit is used up",
			Mend: "upgrade it as https://learn.microsoft.com/azure/cost-management-billing/manage/" +
				"upgrade-azure-subscription describes; until then `market: on-demand`"})
	}
	return true
}

// skewOf returns how far this machine's clock is ahead of Azure's.
func (c *Cloud) skewOf(response *http.Response) time.Duration {
	if response == nil {
		return 0
	}
	at, err := http.ParseTime(response.Header.Get("Date"))
	if err != nil {
		return 0
	}
	return c.now().Sub(at)
}

func (c *Cloud) checkProviders(ctx context.Context, r *driver.Report) {
	for _, name := range Providers() {
		call, cancel := context.WithTimeout(ctx, readWithin)
		out, err := c.providers.Get(call, name, nil)
		cancel()
		if err != nil {
			r.Missing = append(r.Missing,
				c.lack("the subscription's registration for "+name+" cannot be read", err))
			continue
		}
		switch state := text(out.RegistrationState); state {
		case "Registered":
		case "Registering": // by this user, a moment ago
			r.Missing = append(r.Missing, driver.Lack{
				What: "the subscription is still being registered for " + name + ", which takes minutes",
				Mend: "az provider show --namespace " + name + " --query registrationState --subscription " +
					c.cfg.Subscription})
		default:
			r.Missing = append(r.Missing, driver.Lack{Fatal: true,
				What: "the subscription is not registered for " + name,
				Mend: "az provider register --namespace " + name + " --subscription " + c.cfg.Subscription})
		}
	}
}

func (c *Cloud) checkGroup(ctx context.Context, r *driver.Report) bool {
	call, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	_, err := c.groups.Get(call, c.cfg.ResourceGroup, nil)
	if err != nil {
		r.Missing = append(r.Missing, c.lack("the resource group cannot be read", err))
	}
	return err == nil
}

// permissions are the caller's rights in the group, and the exceptions from them ("Permissions: List For Resource
// Group").
type permissions struct {
	Value []struct {
		Actions    []string `json:"actions"`
		NotActions []string `json:"notActions"`
	} `json:"value"`
}

// allow reports whether an action is permitted.
func (p permissions) allow(action string) bool {
	for _, one := range p.Value {
		if slices.ContainsFunc(one.Actions, func(a string) bool { return covers(a, action) }) &&
			!slices.ContainsFunc(one.NotActions, func(a string) bool { return covers(a, action) }) {
			return true
		}
	}
	return false
}

// covers reports whether a pattern with * matches an action. It ignores the case of letters.
func covers(pattern, action string) bool {
	parts := strings.Split(strings.ToLower(pattern), "*")
	rest, ok := strings.CutPrefix(strings.ToLower(action), parts[0])
	if !ok {
		return false
	}
	for i, part := range parts[1:] {
		if i == len(parts)-2 {
			return strings.HasSuffix(rest, part)
		}
		at := strings.Index(rest, part)
		if at < 0 {
			return false
		}
		rest = rest[at+len(part):]
	}
	return rest == ""
}

// checkRights compares the rights that the driver needs with the caller's rights.
func (c *Cloud) checkRights(ctx context.Context, r *driver.Report) {
	var may permissions
	err := c.ask(ctx, fmt.Sprintf("/subscriptions/%s/resourcegroups/%s/providers/Microsoft.Authorization/permissions",
		c.cfg.Subscription, c.cfg.ResourceGroup), "2022-04-01", &may)
	if err != nil {
		l := c.lack("the rights in the resource group cannot be read", err)
		l.Fatal = false // launches report missing rights
		r.Missing = append(r.Missing, l)
		return
	}
	var lacking []string
	for _, action := range Actions() {
		if !may.allow(action) {
			lacking = append(lacking, action)
		}
	}
	if len(lacking) > 0 {
		r.Missing = append(r.Missing, driver.Lack{Fatal: true, Mend: c.grant(r.Identity),
			What: "no right in resource group " + c.cfg.ResourceGroup + " to " + strings.Join(lacking, ", ")})
	}
}

// ask gets a document by a call that the linked clients of the SDK do not have.
func (c *Cloud) ask(ctx context.Context, path, version string, into any) error {
	return c.askFor(ctx, path, url.Values{"api-version": {version}}, into)
}

func (c *Cloud) askFor(ctx context.Context, path string, query url.Values, into any) error {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	req, err := runtime.NewRequest(ctx, http.MethodGet, runtime.JoinPaths(c.raw.Endpoint(), path))
	if err != nil {
		return err
	}
	req.Raw().URL.RawQuery = query.Encode()
	response, err := c.raw.Pipeline().Do(req)
	if err != nil {
		return err
	}
	if !runtime.HasStatusCode(response, http.StatusOK) {
		return runtime.NewResponseError(response)
	}
	return runtime.UnmarshalAsJSON(response, into)
}

func (c *Cloud) checkRegions(ctx context.Context, r *driver.Report) {
	all, err := c.locations(ctx)
	if err != nil {
		r.Missing = append(r.Missing, c.lack("the subscription's regions cannot be read", err))
		return
	}
	mend := "az account list-locations --query '[].name' --subscription " + c.cfg.Subscription
	for _, name := range c.cfg.Regions {
		if _, ok := all[name]; ok {
			r.Regions = append(r.Regions, name)
			continue
		}
		r.Missing = append(r.Missing, driver.Lack{What: "this subscription has no region " + name,
			Mend: "az account list-locations --query '[].name' --subscription " + c.cfg.Subscription})
	}
	if len(r.Regions) == 0 {
		r.Missing = append(r.Missing,
			driver.Lack{What: "the subscription has none of the configured regions", Fatal: true, Mend: mend})
	}
}

// checkSubnets reports subnets of the settings that cannot be used. It also reports machines whose only way to the
// internet is one that Azure is ending ("Default outbound access in Azure").
func (c *Cloud) checkSubnets(ctx context.Context, r *driver.Report) {
	for _, region := range r.Regions {
		id := c.cfg.Subnets[region]
		if id == "" {
			if c.cfg.NoPublicAddress {
				r.Missing = append(r.Missing, driver.Lack{
					What: "machines in " + region +
						" have no public address and no subnet with another way to the internet",
					Mend: fmt.Sprintf("tradewind cloud add azure --subscription %s --regions %s --no-public-address"+
						" --subnets %s=ID, a subnet with a NAT gateway", c.cfg.Subscription,
						strings.Join(c.cfg.Regions, ","), region)})
			}
			continue
		}
		call, cancel := context.WithTimeout(ctx, readWithin)
		_, err := c.resources.GetByID(call, id, networkVersion, nil)
		cancel()
		if err == nil {
			continue
		}
		l := c.lack("the subnet of "+region+" cannot be read", err)
		if l.Fatal = false; gone(err) {
			l.Mend = "az network vnet subnet list --resource-group GROUP --vnet-name NETWORK --query '[].id'"
		} else if e := asError(err); e != nil && strings.HasSuffix(e.Code, "AuthorizationFailed") {
			l.Mend = fmt.Sprintf("az role assignment create --assignee %s --role 'Network Contributor' --scope %s",
				cmp.Or(r.Identity, "WHO"), id)
		}
		r.Missing = append(r.Missing, l)
	}
}

// Names of the vCPU quotas against which every machine counts: on-demand and spot.
const (
	quotaCores = "cores"
	quotaSpot  = "lowPriorityCores"
)

func (c *Cloud) checkQuotas(ctx context.Context, r *driver.Report) {
	for _, region := range r.Regions {
		quotas, err := c.Quotas(ctx, region)
		if err != nil {
			r.Missing = append(r.Missing, c.lack("the quotas of "+region+" cannot be read", err))
			continue
		}
		r.Quotas = append(r.Quotas, quotas...)
		for _, q := range quotas {
			if (q.Name == quotaCores || q.Name == quotaSpot) && q.Limit == 0 {
				r.Missing = append(r.Missing, driver.Lack{
					What: fmt.Sprintf("the quota %s of %s is 0", q.Name, region),
					Mend: fmt.Sprintf(
						"az quota update --resource-name %s"+
							" --scope /subscriptions/%s/providers/Microsoft.Compute/locations/%s"+
							" --limit-object value=100",
						q.Name,
						c.cfg.Subscription,
						region,
					),
				})
			}
		}
	}
}

// Quotas returns the limits of a region, in vCPUs and machines, including those that are 0.
func (c *Cloud) Quotas(ctx context.Context, region string) ([]driver.Quota, error) {
	var all []driver.Quota
	pages := c.usage.NewListPager(region, nil)
	for pages.More() {
		call, cancel := context.WithTimeout(ctx, readWithin)
		page, err := pages.NextPage(call)
		cancel()
		if err != nil {
			return nil, Typed(err)
		}
		for _, u := range page.Value {
			if u == nil || u.Name == nil || u.Limit == nil {
				continue
			}
			q := driver.Quota{Name: text(u.Name.Value), Region: region, Limit: float64(*u.Limit)}
			if u.CurrentValue != nil {
				q.Used = float64(*u.CurrentValue)
			}
			all = append(all, q)
		}
	}
	slices.SortFunc(all, func(a, b driver.Quota) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// lack reports a refused call, with Azure's own message and the command that grants the missing right.
func (c *Cloud) lack(what string, err error) driver.Lack {
	l := driver.Lack{What: what + ": " + cloudMessage(err), Fatal: true}
	var code string
	if typed := asError(err); typed != nil {
		code = typed.Code
	}
	switch code {
	case "SubscriptionNotFound", "InvalidSubscriptionId", "InvalidAuthenticationTokenTenant":
		l.Mend = "az account list --all; az login --tenant TENANT"
	case "ResourceGroupNotFound":
		l.Mend = fmt.Sprintf("az group create --name %s --location %s --subscription %s", c.cfg.ResourceGroup,
			c.cfg.Regions[0], c.cfg.Subscription)
	case "AuthorizationFailed", "LinkedAuthorizationFailed", "Forbidden":
		l.Mend = c.grant("")
	case "MissingSubscriptionRegistration", "SubscriptionNotRegistered":
		l.Mend = "az provider register --namespace Microsoft.Compute --subscription " + c.cfg.Subscription
	case "ExpiredAuthenticationToken", "InvalidAuthenticationToken", "AuthenticationFailed", codeCredentials:
		l.Mend = "az login"
	}
	return l
}

// Unknown reports existing capacity of the subscription or its directory that could not be read, and the role that
// allows this, at a scope or in the subscription. The broker then does not use that capacity, and buys machines
// instead.
func (c *Cloud) Unknown(what, role, scope string, err error) driver.Lack {
	l := c.lack(what+" is unknown", err)
	l.Fatal = false
	if e := asError(err); e != nil && strings.HasSuffix(e.Code, "AuthorizationFailed") {
		l.Mend = fmt.Sprintf("az role assignment create --assignee WHO --role '%s' --scope %s", role,
			cmp.Or(scope, "/subscriptions/"+c.cfg.Subscription))
	}
	return l
}

// grant returns the command that gives the caller the rights that the driver needs. A custom role with Actions would
// grant fewer rights.
func (c *Cloud) grant(who string) string {
	return fmt.Sprintf(
		"az role assignment create --assignee %s --role Contributor --scope /subscriptions/%s/resourceGroups/%s",
		cmp.Or(who, "WHO"),
		c.cfg.Subscription,
		c.cfg.ResourceGroup,
	)
}

// cloudMessage returns the cloud's own message.
func cloudMessage(err error) string {
	if e := asError(err); e != nil {
		return firstLine(strings.TrimPrefix(e.Code+": "+e.Message, ": "))
	}
	return firstLine(err.Error())
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}
