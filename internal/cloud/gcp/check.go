package gcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	crm "google.golang.org/api/cloudresourcemanager/v3"
	compute "google.golang.org/api/compute/v1"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/iam/v1"
	"google.golang.org/api/oauth2/v2"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Permissions are all permissions that the driver needs in the project (Compute Engine documentation, "IAM roles and
// permissions"): those of the methods that it calls, and those for the disks, networks and labels of machines.
func Permissions() []string {
	return []string{
		"compute.disks.create", "compute.disks.setLabels", "compute.instances.create", "compute.instances.delete",
		"compute.instances.get", "compute.instances.list", "compute.instances.setLabels",
		"compute.instances.setMetadata", "compute.instances.setServiceAccount", "compute.instances.setTags",
		"compute.machineTypes.get",
		"compute.machineTypes.list", "compute.networks.get", "compute.projects.get", "compute.regions.get",
		"compute.regions.list", "compute.subnetworks.use", "compute.subnetworks.useExternalIp",
		"compute.zoneOperations.get", "compute.zoneOperations.list", "compute.globalOperations.list",
		"compute.acceleratorTypes.list",
	}
}

// QuotaPermissions are the permissions to charge calls to the project, which a user's credentials need.
func QuotaPermissions() []string { return []string{"serviceusage.services.use"} }

// ReservedPermissions are the permissions for reading the project's reserved capacity and commitments. Without them
// the broker does not search for either.
func ReservedPermissions() []string {
	return []string{"compute.reservations.list", "compute.commitments.list"}
}

// ImagePermissions are the permissions for booting from the project's custom images; Google's images need none.
func ImagePermissions() []string {
	return []string{"compute.images.get", "compute.images.getFromFamily", "compute.images.useReadOnly"}
}

// Check implements driver.Checker.
func (c *Cloud) Check(ctx context.Context) (driver.Report, error) {
	r := driver.Report{Account: c.cfg.Project}
	s, err := c.Compute(ctx)
	if err == nil {
		r.Identity = c.identity(ctx)
		var project *compute.Project
		call, cancel := context.WithTimeout(ctx, readWithin)
		project, err = s.Projects.Get(c.cfg.Project).Context(call).Do()
		cancel()
		if err == nil {
			r.Quotas = readQuotas("", project.Quotas)
		}
	}
	if ctx.Err() != nil {
		return r, ctx.Err()
	}
	if err != nil {
		r.Missing = append(r.Missing, c.lack(err))
		return r, nil
	}
	r.Missing = append(r.Missing, c.lacksRights(ctx, r.Identity)...)
	c.checkRegions(ctx, s, &r)
	c.checkNetwork(ctx, s, &r)
	if c.cfg.ServiceAccount == "" {
		r.Missing = append(r.Missing, driver.Lack{
			What: "machines have no service account, so they cannot prove their identity",
			Mend: "gcloud iam service-accounts create tradewind-machines --project " + c.cfg.Project,
		})
	} else {
		r.Missing = append(r.Missing, c.lacksActAs(ctx, r.Identity)...)
	}
	return r, ctx.Err()
}

// identity returns Google's name of the caller, or "" if Google does not report it.
func (c *Cloud) identity(ctx context.Context) string {
	path := "/" // the paths of its methods are complete
	s, err := oauth2.NewService(context.WithoutCancel(ctx), c.Options(path)...)
	if err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	info, err := s.Userinfo.Get().Context(ctx).Do()
	if err != nil {
		return ""
	}
	return cmp.Or(info.Email, info.Id)
}

// lack reports the reason for which the project cannot be read, with Google's own message.
func (c *Cloud) lack(err error) driver.Lack {
	var e *cloud.Error
	if !errors.As(Typed(err), &e) {
		return driver.Lack{What: err.Error(), Fatal: true}
	}
	l := driver.Lack{What: e.Message, Fatal: true}
	switch e.Code {
	case "SERVICE_DISABLED", "accessNotConfigured":
		service, consumer := disabledService(err)
		l.What += fmt.Sprintf(" (the call of %s is charged to %s)", service, cmp.Or(consumer, c.cfg.Project))
		l.Mend = "gcloud services enable " + service + " --project " + cmp.Or(consumer, c.cfg.Project)
		if slices.Contains(gcloudProjects, consumer) {
			l.Mend = "gcloud auth application-default set-quota-project " + c.cfg.Project
		}
	case "USER_PROJECT_DENIED":
		l.Mend = "gcloud projects add-iam-policy-binding " + c.cfg.Project +
			" --member MEMBER --role roles/serviceusage.serviceUsageConsumer"
	case "notFound", "CONSUMER_INVALID":
		l.Mend = "gcloud projects list  # and name one of them"
	case "forbidden", "PERMISSION_DENIED", "insufficientPermissions":
		l.Mend = c.grantCommand("")
	case "BILLING_DISABLED", "billingNotEnabled":
		l.Mend = "gcloud billing projects link " + c.cfg.Project + " --billing-account ACCOUNT"
	case codeCredentials, "authError", "UNAUTHENTICATED", "ACCESS_TOKEN_EXPIRED":
		l.Mend = "gcloud auth application-default login"
		if strings.Contains(e.Message, "iat") || strings.Contains(e.Message, "reasonable timeframe") {
			l.What = "this machine's clock differs from Google's: " + e.Message
			l.Mend = "timedatectl set-ntp true"
		}
	}
	if l.What == "" {
		l.What = e.Error()
	}
	return l
}

// Unknown reports information about the project's existing capacity that could not be read. The broker then does not
// use that capacity, and buys machines instead.
func (c *Cloud) Unknown(what string, err error) driver.Lack {
	l := c.lack(err)
	l.Fatal, l.What = false, what+" is unknown: "+l.What
	return l
}

// RoleName is the name of the custom role that `cloud add gcp` creates.
const RoleName = "tradewind"

func (c *Cloud) grantCommand(identity string) string {
	return fmt.Sprintf("gcloud projects add-iam-policy-binding %s --member %s --role roles/compute.instanceAdmin.v1",
		c.cfg.Project, member(identity))
}

// member is a caller as IAM policies name it.
func member(identity string) string {
	switch {
	case strings.HasSuffix(identity, ".gserviceaccount.com"):
		return "serviceAccount:" + identity
	case identity != "":
		return "user:" + identity
	}
	return "MEMBER"
}

// gcloudProjects are the projects of gcloud itself, to which calls with a user's credentials are charged without a
// quota project (Google Cloud documentation, "Troubleshoot your ADC setup").
var gcloudProjects = []string{"764086051850", "32555940559"}

// disabledService returns the service that refused a call because it is not enabled in the consumer, the project that
// is charged.
func disabledService(err error) (service, consumer string) {
	service = "compute.googleapis.com"
	var answer *googleapi.Error
	if !errors.As(err, &answer) {
		return service, ""
	}
	for _, d := range answer.Details {
		detail, _ := d.(map[string]any)
		metadata, _ := detail["metadata"].(map[string]any)
		if text, _ := metadata["service"].(string); text != "" {
			service = text
		}
		if text, _ := metadata["consumer"].(string); text != "" {
			consumer = strings.TrimPrefix(text, "projects/")
		}
	}
	return service, consumer
}

// lacksRights reports missing permissions, or why they are unknown.
func (c *Cloud) lacksRights(ctx context.Context, identity string) []driver.Lack {
	s, err := crm.NewService(context.WithoutCancel(ctx), c.Options("/")...)
	if err != nil {
		return nil
	}
	call, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	out, err := s.Projects.TestIamPermissions("projects/"+c.cfg.Project,
		&crm.TestIamPermissionsRequest{Permissions: Permissions()}).Context(call).Do()
	if err != nil {
		return []driver.Lack{c.Unknown("whether all permissions are granted", err)}
	}
	missing := slices.DeleteFunc(Permissions(), func(p string) bool { return slices.Contains(out.Permissions, p) })
	if len(missing) == 0 {
		return nil
	}
	who := cmp.Or(identity, "the caller")
	return []driver.Lack{{
		What: fmt.Sprintf("%s lacks %s in project %s", who, strings.Join(missing, ", "), c.cfg.Project),
		Mend: c.grantCommand(identity), Fatal: true,
	}}
}

// lacksActAs reports that the caller lacks the right to start machines with their service account (IAM documentation,
// "Attach service accounts to resources": iam.serviceAccounts.actAs on the account). Google also answers that a
// permission is not granted if the account does not exist.
func (c *Cloud) lacksActAs(ctx context.Context, identity string) []driver.Lack {
	s, err := iam.NewService(context.WithoutCancel(ctx), c.Options("/")...)
	if err != nil {
		return nil
	}
	call, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	const actAs = "iam.serviceAccounts.actAs"
	account := c.cfg.ServiceAccount
	out, err := s.Projects.ServiceAccounts.TestIamPermissions("projects/-/serviceAccounts/"+account,
		&iam.TestIamPermissionsRequest{Permissions: []string{actAs}}).Context(call).Do()
	if err != nil {
		return []driver.Lack{c.Unknown("whether "+account+" may be given to machines", err)}
	}
	if slices.Contains(out.Permissions, actAs) {
		return nil
	}
	return []driver.Lack{{
		What: fmt.Sprintf("%s lacks %s on %s, or the account does not exist", cmp.Or(identity, "the caller"), actAs,
			account),
		Mend: fmt.Sprintf("gcloud iam service-accounts add-iam-policy-binding %s --project %s --member %s "+
			"--role roles/iam.serviceAccountUser", account, c.cfg.Project, member(identity)), Fatal: true,
	}}
}

func (c *Cloud) checkRegions(ctx context.Context, s *compute.Service, r *driver.Report) {
	call, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	known := map[string]bool{}
	err := s.Regions.List(c.cfg.Project).Pages(call, func(page *compute.RegionList) error {
		for _, region := range page.Items {
			if region.Status != "UP" || len(c.cfg.Regions) > 0 && !slices.Contains(c.cfg.Regions, region.Name) {
				continue
			}
			known[region.Name] = true
			r.Regions = append(r.Regions, region.Name)
			r.Quotas = append(r.Quotas, readQuotas(region.Name, region.Quotas)...)
		}
		return nil
	})
	if err != nil {
		l := c.lack(err)
		l.What = "regions are unknown: " + l.What
		r.Missing = append(r.Missing, l)
		return
	}
	slices.Sort(r.Regions)
	for _, name := range c.cfg.Regions {
		if !known[name] {
			r.Missing = append(r.Missing, driver.Lack{
				What: fmt.Sprintf("region %s is not open to project %s", name, c.cfg.Project),
				Mend: "gcloud compute regions list --project " + c.cfg.Project, Fatal: len(known) == 0,
			})
		}
	}
	r.Missing = append(r.Missing, c.noQuota(r.Quotas)...)
}

// noQuota reports quotas of 0 that leave a project without any machines, or without any with GPUs, each in one line.
// Other quotas of 0 concern a family of machines, and the catalogue leaves that family out (refresh).
//
// Source: Cloud Quotas documentation, "Quota IDs" (the metric CPUS is CPUS-per-project-region) and `gcloud beta
// quotas preferences create`.
func (c *Cloud) noQuota(all []driver.Quota) (missing []driver.Lack) {
	ask := "gcloud beta quotas preferences create --service compute.googleapis.com --project " + c.cfg.Project +
		" --preferred-value "
	var regions []string
	for _, q := range all {
		switch {
		case q.Limit != 0:
		case q.Region == "" && q.Name == "GPUS_ALL_REGIONS":
			missing = append(missing, driver.Lack{
				What: "the project may have no GPUs: its quota GPUS_ALL_REGIONS is 0",
				Mend: ask + "8 --quota-id GPUS-ALL-REGIONS-per-project",
			})
		case q.Region == "" && q.Name == "CPUS_ALL_REGIONS":
			missing = append(missing, driver.Lack{
				What: "the project may have no machines: its quota CPUS_ALL_REGIONS is 0",
				Mend: ask + "64 --quota-id CPUS-ALL-REGIONS-per-project",
			})
		case q.Name == "CPUS":
			regions = append(regions, q.Region)
		}
	}
	if len(regions) == 0 {
		return missing
	}
	command := ask + "64 --quota-id CPUS-per-project-region --dimensions region="
	l := driver.Lack{Mend: command + regions[0],
		What: "the project may have no processors of most families: its quota CPUS is 0 in " +
			strings.Join(regions, ", ")}
	if len(regions) > 1 {
		l.Mend = "for r in " + strings.Join(regions, " ") + "; do " + command + "$r; done"
	}
	return append(missing, l)
}

// readQuotas returns the quotas of processors, GPUs and machines. It leaves out the project's other hundred or so
// quotas, which are never reached first.
func readQuotas(region string, all []*compute.Quota) (out []driver.Quota) {
	for _, q := range all {
		if strings.Contains(q.Metric, "CPUS") || strings.Contains(q.Metric, "GPUS") || q.Metric == "INSTANCES" {
			out = append(out, driver.Quota{Name: q.Metric, Region: region, Limit: q.Limit, Used: q.Usage})
		}
	}
	return out
}

// checkNetwork checks a network of the project. It does not check a network of another project, or a subnetwork
// without a network. Launches report errors of those.
func (c *Cloud) checkNetwork(ctx context.Context, s *compute.Service, r *driver.Report) {
	if c.cfg.Network == "" || strings.Contains(c.cfg.Network, "/") {
		return
	}
	call, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	_, err := s.Networks.Get(c.cfg.Project, c.cfg.Network).Context(call).Do()
	switch {
	case notFound(err):
		r.Missing = append(r.Missing, driver.Lack{
			What:  fmt.Sprintf("network %s is not in project %s", c.cfg.Network, c.cfg.Project),
			Mend:  fmt.Sprintf("gcloud compute networks create %s --project %s", c.cfg.Network, c.cfg.Project),
			Fatal: true,
		})
	case err != nil:
		l := c.lack(err)
		l.Fatal = false
		r.Missing = append(r.Missing, l)
	}
}

// TPUPermissions are the additional permissions for TPUs. Those for nodes also cover queued resources, which have no
// permissions of their own (IAM documentation, "Cloud TPU roles and permissions").
func TPUPermissions() []string {
	return []string{
		"tpu.nodes.create", "tpu.nodes.delete", "tpu.nodes.get", "tpu.nodes.list", "tpu.operations.get",
	}
}

// IsGone reports whether err means that the resource does not exist.
func IsGone(err error) bool { return notFound(err) }
