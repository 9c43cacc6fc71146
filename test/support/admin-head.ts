// The head of a request to the admin port, as a browser on this machine sends it.

import type { AdminHead } from '../../src/http/admin-routes.ts'

export function headOf(changes: Partial<AdminHead> = {}): AdminHead {
  return {
    method: 'GET',
    path: '/api/now',
    query: '',
    accept: '*/*',
    acceptEncoding: '',
    authorization: '',
    cookie: '',
    host: 'localhost:9090',
    ifNoneMatch: '',
    origin: '',
    fetchSite: '',
    ...changes,
  }
}
