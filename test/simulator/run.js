// `npm run simulate`.

import { runBuilt } from '../support/run-built.js'

await runBuilt('simulator')
