"""Images in any form → RGB pixels; columns of images as sequences."""
