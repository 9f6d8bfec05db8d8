"""The v3 API of the node: files, resumable uploads, groups, links, and private files.

- `endpoints`: the routes, and the calls about files
- `upload_form`, `tus_endpoints` and `tus_uploads`: one request, or several (tus 1.0)
- `group_endpoints`, `pin_endpoints`, `link_endpoints`: groups, pin by CID, and signed addresses
- `networks`, `file_details` and `signatures`: what is on disk besides the pins of the store
- `private_gateway`: read a private file through an access link
"""
