#pragma once

#include <string_view>

namespace headcount {

/// The styles of the report, for light and for dark. Shades of .l1 to .l4 are of one hue, from next
/// to the paper to the far end of lightness, so that colour-blind readers see their order: orange
/// for losses, and in .w blue for weights.
inline constexpr std::string_view kPageStyle = R"(<style>
:root{color-scheme:light dark}
body{margin:0 auto;padding:1rem;max-width:84rem;font:1rem/1.5 system-ui,sans-serif;
color:#1a1a1a;background:#f6f6f4;overflow-wrap:anywhere}
p,figcaption,li,dd{max-width:44rem}
h1{font-size:1.6rem;line-height:1.25;margin:.5rem 0}h2{font-size:1.2rem;margin:2rem 0 .5rem}
.scroll{overflow-x:auto;border:1px solid #c8c8c8;border-radius:6px;background:#fff}
.scroll:focus-visible{outline:3px solid #0072b2}
table{border-collapse:collapse;overflow-wrap:normal;font-variant-numeric:tabular-nums;
font-size:.8rem}
caption{text-align:left;padding:.5rem .45rem;caption-side:bottom}
.note{position:sticky;left:.45rem;max-width:min(44rem,calc(100vw - 4rem));margin:0}
th,td{padding:.35rem;text-align:right;white-space:nowrap;border-bottom:1px solid #ddd}
thead th{vertical-align:bottom;white-space:normal}
th:first-child{text-align:left;position:sticky;left:0;background:#fff;white-space:nowrap}
.words{text-align:left}.front th:first-child{font-weight:bold}tbody th{font-weight:normal}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,30rem),1fr));gap:1rem}
.verdict{font-size:1.15rem;max-width:60rem}.lead{max-width:44rem}
figure{margin:0}svg{display:block;width:100%;height:auto;border:1px solid #c8c8c8;
border-radius:6px;box-sizing:border-box}figcaption{font-size:.9rem;margin:.4rem 0 1rem}
dt{font-weight:bold}dd{margin:0 0 .5rem}
pre{white-space:pre-wrap;background:#fff;border:1px solid #c8c8c8;
border-radius:6px;padding:.75rem;font-size:.85rem}
summary{cursor:pointer;font-weight:bold}
.readings,.looks{display:grid;gap:.75rem;margin:.5rem 0 1rem;
grid-template-columns:repeat(auto-fill,minmax(min(100%,19rem),1fr))}
.looks{grid-template-columns:repeat(auto-fill,minmax(min(100%,15rem),1fr))}
.readings figcaption,.looks figcaption{margin:0 0 .25rem}
pre.text{margin:0;padding:.5rem;font:.85rem/1.6 ui-monospace,monospace}
.text i{font-style:normal;border-radius:2px}.text .d{font-weight:bold;text-decoration:underline 2px}
.text .q{outline:2px solid;outline-offset:1px}
.key i{font-style:normal;padding:.1rem .35rem;border-radius:2px}
.l1{background:#fdebd3}.l2{background:#f9c48a}.l3{background:#e8853a}.l4{background:#a83c00;color:#fff}
.w .l1{background:#dcebf6}.w .l2{background:#a6cfe8}.w .l3{background:#5aa3d4}
.w .l4{background:#005a91;color:#fff}
@media (prefers-color-scheme:dark){
body{color:#ececec;background:#0e0f12}.scroll,pre,th:first-child{background:#16181c}
.scroll,pre,svg{border-color:#44484f}th,td{border-color:#33363c}
.scroll:focus-visible{outline-color:#4ba3e3}
.l1{background:#3b2a18}.l2{background:#6b4420}.l3{background:#9a5512;color:#fff}
.l4{background:#ffb35c;color:#000}.w .l1{background:#1b2f40}.w .l2{background:#234d6b}
.w .l3{background:#226a9c;color:#fff}.w .l4{background:#8fd0ff;color:#000}
}
</style>
)";

}  // namespace headcount
