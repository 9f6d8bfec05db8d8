"""The v3 API of the node: files, resumable uploads, groups, links, and private files.

- `endpoints`: the routes, and the calls that upload a file
- `v3_form_upload`: an upload in one request
- `tus_endpoints`, `tus_uploads` and `tus_upload`: an upload in several requests (tus 1.0)
- `file_endpoints`, `group_endpoints`: files and groups that exist
- `pin_endpoints`, `link_endpoints`: pin by CID, and signed addresses
- `networks`, `file_details` and `signatures`: what is on disk besides the pins of the store
- `private_gateway`: read a private file through an access link
- `upload_options`, `list_query` and `json_records`: what a client sends, and what it gets
"""
