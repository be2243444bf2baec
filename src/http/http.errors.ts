import { McpOptionError } from '../base/option-checks.js';

/** An option of the HTTP edge that cannot work; thrown while the app starts. @publicApi */
export class McpHttpOptionError extends McpOptionError {}
