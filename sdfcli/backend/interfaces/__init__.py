"""What a device must provide, in six interfaces; the folders cpu/ and cuda/ mirror them."""
