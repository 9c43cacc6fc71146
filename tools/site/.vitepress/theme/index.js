// The generator's own theme; long names break on a phone, so that no page runs over its edge.

import theme from 'vitepress/theme'
import './site.css'

export default theme
