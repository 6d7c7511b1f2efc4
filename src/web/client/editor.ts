/** The editor for policies and templates; loaded by their pages only. */
export {};
