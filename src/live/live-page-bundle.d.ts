/* The page of src/live/page as one document: scripts/live-page.mjs makes the module, for dist and for vitest. */

export const HTML: string;
/** The hash of the script, as the policy names it. */
export const SCRIPT_HASH: string;
export const STYLE_HASH: string;
