#include "train/report/page.h"

#include <string_view>

#include "train/compare/number_text.h"

namespace headcount {

namespace {

// The styles of the report, for light and for dark. Shades of .l1 to .l4 are of one hue, from next
// to the paper to the far end of lightness, so that colour-blind readers see their order: orange
// for losses, and in .w blue for weights.
constexpr std::string_view kPageStyle = R"(<style>
:root{color-scheme:light dark}
body{margin:0 auto;padding:1rem;max-width:84rem;font:1rem/1.5 system-ui,sans-serif;
color:#1a1a1a;background:#f6f6f4;overflow-wrap:anywhere}
p,figcaption,li,dd{max-width:44rem}
h1{font-size:1.6rem;line-height:1.25;margin:.5rem 0 1rem}h2{font-size:1.2rem;margin:2rem 0 .5rem}
.scroll{overflow-x:auto;width:fit-content;max-width:100%;box-sizing:border-box;
border:1px solid #c8c8c8;border-radius:6px;background:#fff}
.scroll:focus-visible{outline:3px solid #0072b2}
table{border-collapse:collapse;overflow-wrap:normal;font-variant-numeric:tabular-nums;
font-size:.8rem}
caption{text-align:left;padding:.5rem .45rem;caption-side:bottom}
.note{position:sticky;left:.45rem;max-width:min(44rem,calc(100vw - 4rem));margin:0}
th,td{padding:.35rem;text-align:right;white-space:nowrap;border-bottom:1px solid #ddd}
thead th{vertical-align:bottom;white-space:normal}
@media (max-width:75rem){th,td{padding:.35rem .2rem}}
@media (max-width:50rem){thead th{min-width:4.5em}}
th:first-child{text-align:left;position:sticky;left:0;background:#fff;white-space:nowrap}
.words{text-align:left}.front th:first-child{font-weight:bold}tbody th{font-weight:normal}
.columns{columns:2 30rem;column-gap:1.5rem}.columns>*{break-inside:avoid;margin-top:0}
.verdict{font-size:1.15rem}
figure{margin:0;max-width:44rem}svg{display:block;width:100%;height:auto;border:1px solid #c8c8c8;
border-radius:6px;box-sizing:border-box}figcaption{font-size:.9rem;margin:.4rem 0 1rem}
dt{font-weight:bold}dd{margin:0 0 .5rem}
pre{white-space:pre-wrap;background:#fff;border:1px solid #c8c8c8;
border-radius:6px;padding:.75rem;font-size:.85rem}
summary{cursor:pointer;font-weight:bold;margin:.5rem 0}
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
@media screen and (prefers-color-scheme:dark){
body{color:#ececec;background:#0e0f12}.scroll,pre,th:first-child{background:#16181c}
.scroll,pre,svg{border-color:#44484f}th,td{border-color:#33363c}
.scroll:focus-visible{outline-color:#4ba3e3}
.l1{background:#3b2a18}.l2{background:#6b4420}.l3{background:#9a5512;color:#fff}
.l4{background:#ffb35c;color:#000}.w .l1{background:#1b2f40}.w .l2{background:#234d6b}
.w .l3{background:#226a9c;color:#fff}.w .l4{background:#8fd0ff;color:#000}
}
@page{margin:1.2cm}
@media print{
:root{color-scheme:light;font-size:10pt}body{padding:0;max-width:none;background:none}
.columns{columns:auto}figure,pre,tr,.scroll,.key{break-inside:avoid}
h2,dt,summary{break-after:avoid}svg{max-width:14cm;max-height:24cm}
.scroll{overflow:visible;border:0}table{width:100%;font-size:6pt}
th,td{padding:.15rem}th:first-child{white-space:normal}th:first-child,.note{position:static}
thead th{min-width:0}
.text i,.key i{print-color-adjust:exact;-webkit-print-color-adjust:exact}
}
</style>
)";

}  // namespace

std::string plural(std::size_t count, const std::string& word) {
  return number_text(static_cast<double>(count)) + " " + word + (count == 1 ? "" : "s");
}

std::string element(const std::string& tag, const std::string& content) {
  return "<" + tag + ">" + xml_escaped(content) + "</" + tag + ">\n";
}

std::string figure(const std::string& svg, const std::string& caption) {
  return "<figure>\n" + svg + element("figcaption", caption) + "</figure>\n";
}

std::string html_table(const std::vector<TextColumn>& columns, const std::string& label,
                       const std::string& note, const std::vector<bool>& bold) {
  const auto row = [&](std::size_t i) {
    std::string out;
    for (const TextColumn& column : columns) {
      const bool first = &column == &columns.front(), head = first || i == 0;
      const std::string tag = head ? "th" : "td";
      out += "<" + tag + (head ? i == 0 ? " scope=\"col\"" : " scope=\"row\"" : "") +
             (column.words && !first ? " class=\"words\">" : ">") + xml_escaped(column.cells[i]) +
             "</" + tag + ">";
    }
    return out;
  };
  std::string out = "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"" +
                    xml_escaped(label) + "\">\n<table>\n";
  if (!note.empty()) out += "<caption><p class=\"note\">" + xml_escaped(note) + "</p></caption>\n";
  out += "<thead><tr>" + row(0) + "</tr></thead>\n<tbody>\n";
  for (std::size_t i = 1; i < columns.front().cells.size(); ++i)
    out += (i <= bold.size() && bold[i - 1] ? "<tr class=\"front\">" : "<tr>") + row(i) + "</tr>\n";
  return out + "</tbody>\n</table>\n</div>\n";
}

std::string page(const std::string& title, const std::string& body) {
  // The policy makes a browser refuse every load, should a later change ask for one.
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
         "'unsafe-inline'\"/>\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n" +
         element("title", title) + std::string(kPageStyle) + "</head>\n<body>\n<main>\n" + body +
         "</main>\n</body>\n</html>\n";
}

}  // namespace headcount
