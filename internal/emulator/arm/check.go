package arm

import (
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
)

func invalidParameter(format string, args ...any) *Fault {
	return fault(http.StatusBadRequest, "InvalidParameter", format, args...)
}

// checkOS rejects a machine without a name, without a way to log in, or with invalid custom data.
func checkOS(os *armcompute.OSProfile) *Fault {
	if value(os.AdminUsername) == "" || value(os.ComputerName) == "" {
		return invalidParameter("Required parameter 'osProfile.adminUsername' is missing (null).")
	}
	var keys []*armcompute.SSHPublicKey
	if linux := os.LinuxConfiguration; linux != nil && linux.SSH != nil {
		keys = linux.SSH.PublicKeys
	}
	if os.AdminPassword == nil && len(keys) == 0 {
		return invalidParameter("Authentication using either SSH or by user name and password must be enabled in " +
			"Linux profile.")
	}
	if len(keys) > 0 && !strings.HasPrefix(value(keys[0].KeyData), "ssh-") {
		return invalidParameter("The value of parameter linuxConfiguration.ssh.publicKeys.keyData is invalid.")
	}
	raw, err := base64.StdEncoding.DecodeString(value(os.CustomData))
	if err != nil || len(raw) > 64<<10 {
		return invalidParameter("Custom data in OSProfile must be in Base64 encoding and with a maximum length of " +
			"87380 characters.")
	}
	return nil
}

// checkDisk rejects disks that cannot boot: without an image, with an unreadable image, too small for the image, or
// with an image for another processor.
func (s *Server) checkDisk(storage *armcompute.StorageProfile, size Size) *Fault {
	image, disk := storage.ImageReference, storage.OSDisk
	if image == nil || !named(image) {
		return invalidParameter("Required parameter 'imageReference' is missing (null).")
	}
	if f := s.lacksImage(image); f != nil {
		return f
	}
	if sku := value(image.SKU); sku != "" {
		if strings.Contains(sku, "arm64") != size.Arm {
			return invalidParameter("Cannot create a VM of size '%s' because this VM size only supports another CPU "+
				"Architecture than the image has.", size.Name)
		}
		if size.OnlyFirstGen && !strings.Contains(sku, "gen1") {
			return invalidParameter("The selected VM size '%s' cannot boot Hypervisor Generation '2'.", size.Name)
		}
	}
	least := int32(30)
	if value(image.Offer) == "ubuntu-hpc" {
		least = 64
	}
	if disk == nil || disk.CreateOption == nil || *disk.CreateOption != armcompute.DiskCreateOptionTypesFromImage {
		return invalidParameter("Required parameter 'osDisk.createOption' is missing (null).")
	}
	if disk.DiskSizeGB != nil && *disk.DiskSizeGB < least {
		return invalidParameter("The specified disk size %d GB is smaller than the size of the corresponding disk in "+
			"the VM image: %d GB.", *disk.DiskSizeGB, least)
	}
	return nil
}

// checkSecurity rejects a confidential size without the security type that it needs.
func checkSecurity(profile *armcompute.SecurityProfile, size Size) *Fault {
	if size.Confidential == "" || profile != nil &&
		value(profile.SecurityType) == armcompute.SecurityTypesConfidentialVM {
		return nil
	}
	return fault(http.StatusBadRequest, "BadRequest", "The VM size '%s' is not supported for creation of VMs and "+
		"Virtual Machine Scale Set with '<NULL>' security type.", size.Name)
}

// named reports whether a reference names an image, by ID or by all of its parts.
func named(image *armcompute.ImageReference) bool {
	if image.ID != nil || image.SharedGalleryImageID != nil || image.CommunityGalleryImageID != nil {
		return true
	}
	for _, part := range []*string{image.Publisher, image.Offer, image.SKU, image.Version} {
		if value(part) == "" {
			return false
		}
	}
	return true
}

// lacksImage rejects a custom image that the caller may not read.
func (s *Server) lacksImage(image *armcompute.ImageReference) *Fault {
	id := value(image.ID)
	action := "Microsoft.Compute/images/read"
	if strings.Contains(strings.ToLower(id), "/galleries/") {
		action = "Microsoft.Compute/galleries/images/versions/read"
	}
	if id == "" || !s.denied[strings.ToLower(action)] {
		return nil
	}
	return fault(http.StatusForbidden, "LinkedAuthorizationFailed",
		"The client has permission to perform action 'Microsoft.Compute/virtualMachines/write' on scope '%s'; "+
			"however, it does not have permission to perform action(s) '%s' on the linked scope(s) '%s' "+
			"(respectively) or the linked scope(s) are invalid.", s.cfg.Group, action, id)
}
